//! Goes on with operations over many dead letters, step by step, at their pace.
//!
//! A round is one step: an operation of a million emails never stands in the way of a shutdown.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{SharedStore, StoreError};
use tokio::sync::Notify;

use crate::service::{Report, Service};

/// How many emails a step is about, at most.
pub const BATCH: usize = 500;
/// How often to look whether there is something to do; whoever makes an operation also says so.
const INTERVAL: Duration = Duration::from_secs(1);
/// When someone else is at the step that is due, the next look comes after this time.
const HELD_ELSEWHERE: Duration = Duration::from_millis(20);

/// Treats the emails of operations.
pub struct Bulk {
    store: SharedStore,
    scheduler: Arc<Notify>,
}

impl Bulk {
    /// One that wakes this scheduler when there is something new to send.
    #[must_use]
    pub fn new(store: SharedStore, scheduler: Arc<Notify>) -> Self {
        Self { store, scheduler }
    }

    /// How long until the next step; `None` if there is none.
    async fn wait(&self) -> Result<Option<Duration>, StoreError> {
        let due = self.store.next_step_due().await?;
        Ok(due.map(|due| {
            let wait = due.duration_since(self.store.now());
            Duration::try_from(wait).unwrap_or(Duration::ZERO)
        }))
    }
}

#[async_trait]
impl Service for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let again_in = self.wait().await?;
        if again_in != Some(Duration::ZERO) {
            return Ok(Report { done: 0, again_in });
        }
        posthaste_core::failpoint::hit("bulk.before_step");
        let Some(step) = self.store.advance_operation(BATCH).await? else {
            return Ok(Report {
                done: 0,
                again_in: Some(HELD_ELSEWHERE),
            });
        };
        posthaste_core::failpoint::hit("bulk.after_step");
        // What was retried waits without a ticket: the scheduler makes one.
        self.scheduler.notify_one();
        let operation = &step.operation;
        if operation.status.is_over() {
            tracing::info!(
                operation_id = %operation.id,
                action = %operation.action,
                total = operation.total,
                done = operation.done,
                skipped = operation.skipped,
                "an operation is done"
            );
        }
        Ok(Report {
            done: step.treated,
            again_in: self.wait().await?,
        })
    }
}
