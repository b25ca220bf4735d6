//! How things are, in a line: kept up to date on a terminal, repeated elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_core::status::Status;
use posthaste_engine::Operator;
use serde_json::json;

use crate::output;

/// How often a line that stays is written, and one that is renewed.
const REPEATED: Duration = Duration::from_secs(5);
const RENEWED: Duration = Duration::from_secs(1);

enum Place {
    Terminal(ProgressBar),
    Lines,
    Json,
}

pub(super) struct StatusLine {
    place: Place,
}

impl StatusLine {
    pub(super) fn new(json: bool) -> Self {
        let place = if json {
            Place::Json
        } else if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}") {
                bar.set_style(style);
            }
            Place::Terminal(bar)
        } else {
            Place::Lines
        };
        Self { place }
    }

    /// How often it should be shown.
    pub(super) const fn interval(&self) -> Duration {
        match self.place {
            Place::Terminal(_) | Place::Json => RENEWED,
            Place::Lines => REPEATED,
        }
    }

    pub(super) async fn show(&mut self, operator: &Operator, away: bool) -> anyhow::Result<()> {
        let statistics = operator.statistics().await?;
        let groups = operator.dead_groups(None).await?.len();
        let of = |statuses: &[Status]| -> u64 {
            let count = |status| {
                statistics
                    .by_status
                    .get(status)
                    .copied()
                    .unwrap_or_default()
            };
            statuses.iter().map(count).sum()
        };
        let accepted = statistics.accepted;
        let sent = of(&[Status::Sent]);
        let waiting = of(&[Status::Pending, Status::Sending]);
        let retrying = of(&[Status::Failed, Status::RetryQueued]);
        let (dead, uncertain) = (of(&[Status::Dead]), of(&[Status::Unknown]));
        let line = || {
            let outage = if away { "  · OUTAGE" } else { "" };
            format!(
                "accepted {accepted}  sent {sent}  waiting {waiting}  retrying {retrying}  \
                 uncertain {uncertain}  dead letters {dead} in {groups} groups{outage}"
            )
        };
        match &self.place {
            Place::Terminal(bar) => {
                bar.set_message(line());
                bar.tick();
            }
            Place::Lines => output::announce(&line()),
            Place::Json => output::json(&json!({
                "accepted": accepted, "sent": sent, "waiting": waiting, "retrying": retrying,
                "uncertain": uncertain, "dead": dead, "groups": groups, "outage": away,
            })),
        }
        Ok(())
    }

    /// Leaves the last line as it is.
    pub(super) fn end(&mut self) {
        if let Place::Terminal(bar) = &self.place {
            bar.abandon();
        }
    }
}
