//! Numbers about emails and messages as they are shown.

use std::collections::BTreeMap;

use posthaste_core::Timestamp;
use posthaste_core::message::MessageStatus;
use posthaste_core::port::{MessageStatistics, Statistics};
use posthaste_core::status::Status;
use serde::Serialize;
use utoipa::ToSchema;

/// Numbers about emails and messages.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Statistics)]
pub(crate) struct StatisticsBody {
    /// How many emails are in each state.
    #[schema(example = json!({"pending": 0, "sent": 2}))]
    emails: BTreeMap<&'static str, u64>,
    /// How many wait for another attempt.
    in_retry: u64,
    /// How many are dead.
    dead_letters: u64,
    /// The part of those that ended in the last 24 hours that was sent, from 0 to 1.
    success_rate_24h: Option<f64>,
    /// How many were sent in the last hour.
    sent_last_hour: u64,
    /// How many were sent in the last 24 hours.
    sent_last_day: u64,
    /// For how long the oldest waiting email has been due.
    oldest_waiting_seconds: Option<u64>,
    /// How many were ever accepted.
    accepted: u64,
    /// How many were removed after their retention.
    pruned: u64,
    /// How many messages of other services are in each state.
    #[schema(example = json!({"pending": 1, "retried": 2, "failed": 0, "discarded": 0}))]
    messages: BTreeMap<&'static str, u64>,
}

/// For how long something has been due since this moment.
pub(crate) fn seconds_since(due: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(due).as_secs()).unwrap_or(0)
}

/// The part of those that ended in the last 24 hours that was sent, from 0 to 1.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn success_rate(found: &Statistics) -> Option<f64> {
    let ended = found.sent_last_day + found.dead_last_day;
    (ended > 0).then(|| found.sent_last_day as f64 / ended as f64)
}

/// How many messages are in each state, those with none included.
pub(crate) fn messages_by_status(
    found: &MessageStatistics,
) -> impl Iterator<Item = (MessageStatus, u64)> {
    let count = |status| found.by_status.get(status).copied().unwrap_or(0);
    MessageStatus::ALL
        .iter()
        .map(move |status| (*status, count(status)))
}

impl StatisticsBody {
    /// The numbers as they stand now.
    pub(crate) fn of(found: &Statistics, messages: &MessageStatistics, now: Timestamp) -> Self {
        let count = |status| found.by_status.get(&status).copied().unwrap_or(0);
        Self {
            emails: Status::ALL
                .iter()
                .map(|status| (status.as_str(), count(*status)))
                .collect(),
            in_retry: count(Status::Failed) + count(Status::RetryQueued),
            dead_letters: count(Status::Dead),
            success_rate_24h: success_rate(found),
            sent_last_hour: found.sent_last_hour,
            sent_last_day: found.sent_last_day,
            oldest_waiting_seconds: found.oldest_waiting.map(|due| seconds_since(due, now)),
            accepted: found.accepted,
            pruned: found.pruned,
            messages: messages_by_status(messages)
                .map(|(status, n)| (status.as_str(), n))
                .collect(),
        }
    }
}
