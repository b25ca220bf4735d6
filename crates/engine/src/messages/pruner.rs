//! Removes messages that are over for long enough, in small batches.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{MessageRetention, SharedStore, StoreError};

use crate::service::{Report, Service};

const BATCH: usize = 1000;
const INTERVAL: Duration = Duration::from_secs(60);
/// Between two full batches, so that nobody is held up.
const BREATH: Duration = Duration::from_millis(50);

/// Removes messages after their retention.
pub(super) struct MessagePruner {
    store: SharedStore,
    retention: MessageRetention,
}

impl MessagePruner {
    pub(super) const fn new(store: SharedStore, retention: MessageRetention) -> Self {
        Self { store, retention }
    }
}

#[async_trait]
impl Service for MessagePruner {
    fn name(&self) -> &'static str {
        "message pruner"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let pruned = self.store.prune_messages(self.retention, BATCH).await?;
        let done = usize::try_from(pruned).unwrap_or(usize::MAX);
        if done > 0 {
            tracing::info!(messages = done, "pruned");
        }
        Ok(Report {
            done,
            again_in: (done >= BATCH).then_some(BREATH),
        })
    }
}
