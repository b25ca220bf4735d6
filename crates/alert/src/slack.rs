//! Slack, by an incoming webhook.

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::alert::{Alert, AlertGroup};
use posthaste_core::port::AlertChannel;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::client::{InvalidChannel, Poster, usual_advice};
use crate::text::{error_of, link, shortened, told_groups};

/// What Slack allows in a header block.
const MOST_HEADER: usize = 150;

/// A channel in Slack.
pub struct Slack {
    poster: Poster,
}

impl Slack {
    /// Tells the channel behind this webhook URL.
    ///
    /// # Errors
    ///
    /// If the URL cannot be used.
    pub fn new(url: &str) -> Result<Self, InvalidChannel> {
        Ok(Self {
            poster: Poster::new(url)?,
        })
    }
}

impl std::fmt::Debug for Slack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slack").finish_non_exhaustive()
    }
}

#[async_trait]
impl AlertChannel for Slack {
    fn name(&self) -> &str {
        "slack"
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        let body = message(alert).to_string().into_bytes();
        self.poster.post(HeaderMap::new(), body, advice).await
    }
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE => {
            "make a new webhook in Slack and set alerts.slack.url"
        }
        other => usual_advice(other),
    }
}

/// The message: blocks, and a text for notifications.
fn message(alert: &Alert) -> Value {
    let headline = format!("{}: {}", alert.service, alert.headline());
    let mut blocks = vec![json!({
        "type": "header",
        "text": {"type": "plain_text", "text": shortened(&headline, MOST_HEADER), "emoji": false},
    })];
    let (groups, others) = told_groups(alert);
    blocks.extend(groups.iter().map(|group| section(&lines_of(group))));
    if let Some((number, emails)) = others {
        let reasons = if number == 1 { "reason" } else { "reasons" };
        blocks.push(section(&format!(
            "… and {emails} more for {number} other {reasons}"
        )));
    }
    let mut now = vec![format!(
        "In the dead letter queue now: {}",
        alert.dead_letters
    )];
    now.extend(link(alert).map(|(url, place)| {
        let place = place.to_lowercase();
        format!("<{}|Open {place}>", escaped(&url))
    }));
    blocks.push(json!({
        "type": "context",
        "elements": [{"type": "mrkdwn", "text": now.join(" · ")}],
    }));
    json!({"text": escaped(&headline), "blocks": blocks})
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text}})
}

fn lines_of(group: &AlertGroup) -> String {
    let counted = match (group.reason.is_death(), group.count) {
        (true, 1) => "email",
        (true, _) => "emails",
        (false, 1) => "time",
        (false, _) => "times",
    };
    format!(
        "*{} {counted}* · {}\n>{}\nfirst {} · last {}",
        group.count,
        group.reason.as_str(),
        escaped(&error_of(group)),
        moment(group.first_at),
        moment(group.last_at),
    )
}

/// A moment in the reader's own time zone.
fn moment(at: Timestamp) -> String {
    let seconds = at.as_second();
    let fallback = at.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("<!date^{seconds}^{{date_num}} {{time_secs}}|{fallback}>")
}

/// Text that Slack does not take for a command.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
