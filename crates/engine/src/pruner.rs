//! Removes what is over for long enough, in small batches.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{Retention, SharedStore, StoreError};

use crate::service::{Report, Service};

const BATCH: usize = 500;
const INTERVAL: Duration = Duration::from_secs(60);
/// Between two full batches, or two parts of a search, so that senders are not held up.
const BREATH: Duration = Duration::from_millis(50);

/// Removes emails, their attempts and content, captures and audit entries after their retention.
pub struct Pruner {
    store: SharedStore,
    retention: Retention,
}

impl Pruner {
    /// A pruner for this retention.
    #[must_use]
    pub fn new(store: SharedStore, retention: Retention) -> Self {
        Self { store, retention }
    }
}

#[async_trait]
impl Service for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        posthaste_core::failpoint::hit("pruner.before_prune");
        let pruned = self.store.prune(self.retention, BATCH).await?;
        posthaste_core::failpoint::hit("pruner.after_prune");
        if pruned.emails > 0 {
            tracing::info!(emails = pruned.emails, captures = pruned.captures, "pruned");
        }
        let parts = [
            pruned.emails,
            pruned.captures,
            pruned.audit_entries,
            pruned.attempts,
            pruned.contents,
        ];
        let full = parts.iter().any(|part| *part >= BATCH as u64);
        Ok(Report {
            done: usize::try_from(parts.iter().sum::<u64>()).unwrap_or(usize::MAX),
            again_in: (full || pruned.is_unfinished).then_some(BREATH),
        })
    }
}
