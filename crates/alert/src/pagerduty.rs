//! PagerDuty, by its Events API v2.

use async_trait::async_trait;
use posthaste_core::alert::Alert;
use posthaste_core::port::AlertChannel;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::client::{InvalidChannel, Poster, usual_advice};
use crate::text::{Urgency, error_of, link, shortened, told_groups, urgency};

/// Where PagerDuty takes events. Accounts in Europe have `events.eu.pagerduty.com`.
pub const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// What PagerDuty allows.
const MOST_SUMMARY: usize = 1024;
const MOST_DEDUP_KEY: usize = 255;
const ROUTING_KEY: usize = 32;

/// A service in PagerDuty.
pub struct PagerDuty {
    poster: Poster,
    routing_key: String,
}

impl PagerDuty {
    /// Opens incidents for the integration with this key.
    ///
    /// # Errors
    ///
    /// If the URL or the key cannot be used.
    pub fn new(url: &str, routing_key: &str) -> Result<Self, InvalidChannel> {
        let is_key = |key: &str| key.len() == ROUTING_KEY && key.is_ascii();
        if !is_key(routing_key) {
            return Err(InvalidChannel::RoutingKey);
        }
        Ok(Self {
            poster: Poster::new(url)?,
            routing_key: routing_key.to_owned(),
        })
    }

    fn event(&self, alert: &Alert) -> Value {
        let (groups, others) = told_groups(alert);
        let groups: Vec<Value> = groups
            .iter()
            .map(|group| {
                let counted = match group.reason.is_death() {
                    true => "emails",
                    false => "times",
                };
                json!({
                    counted: group.count,
                    "reason": group.reason.as_str(),
                    "error": error_of(group),
                    "first": group.first_at,
                    "last": group.last_at,
                    "example": group.email_id.to_string(),
                })
            })
            .collect();
        let mut details = json!({
            "alert": alert.id,
            "emails": alert.count(),
            "dead_letters": alert.dead_letters,
            "groups": groups,
        });
        if let Some((number, emails)) = others {
            details["other_groups"] = json!({"groups": number, "emails": emails});
        }
        let summary = format!("{}: {}", alert.service, alert.headline());
        // What recovered is told to the incident of the outage, and rings for nobody.
        let (kind, severity) = match urgency(alert) {
            Urgency::Test => ("test", "info"),
            Urgency::Stopped => ("transport", "critical"),
            Urgency::Dead => ("dead-letters", "error"),
            Urgency::Recovered => ("transport", "info"),
        };
        // The same for all alerts of a kind of a service: an outage is one incident, and grows.
        let dedup_key = format!("posthaste-{kind}-{}", alert.service);
        let mut event = json!({
            "routing_key": self.routing_key,
            "event_action": "trigger",
            "dedup_key": shortened(&dedup_key, MOST_DEDUP_KEY),
            "client": "Posthaste",
            "payload": {
                "summary": shortened(&summary, MOST_SUMMARY),
                "source": alert.service,
                "severity": severity,
                "timestamp": alert.at,
                "component": "posthaste",
                "group": alert.service,
                "class": kind,
                "custom_details": details,
            },
        });
        if let Some((url, place)) = link(alert) {
            event["client_url"] = json!(url);
            event["links"] = json!([{"href": url, "text": place}]);
        }
        event
    }
}

impl std::fmt::Debug for PagerDuty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PagerDuty").finish_non_exhaustive()
    }
}

#[async_trait]
impl AlertChannel for PagerDuty {
    fn name(&self) -> &str {
        "pagerduty"
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        let body = self.event(alert).to_string().into_bytes();
        self.poster
            .post(HeaderMap::new(), body, advice)
            .await
            .map_err(|error| error.replace(&self.routing_key, "…"))
    }
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN => {
            "check alerts.pagerduty.routing_key, and that its integration is of Events API v2"
        }
        other => usual_advice(other),
    }
}
