//! What pruning means in every dialect.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::duration::HumanDuration;

/// What is over since before this time is kept no longer.
pub(crate) fn before(now: Timestamp, kept: Duration) -> Timestamp {
    now.checked_sub(kept)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .max(Timestamp::UNIX_EPOCH)
}

/// The audit entry of dead letters that were removed after their retention.
pub(crate) struct Purge {
    pub(crate) actor: &'static str,
    pub(crate) action: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) filter: String,
    pub(crate) result: &'static str,
}

impl Purge {
    /// One for a whole batch.
    pub(crate) fn of(kept: Duration) -> Self {
        Self {
            actor: "retention",
            action: "purge",
            subject: "emails",
            filter: format!(
                "dead and discarded, over for more than {}",
                HumanDuration(kept)
            ),
            result: "removed",
        }
    }
}
