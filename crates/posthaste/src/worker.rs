//! What works in the background.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::status::Status;
use posthaste_engine::Engine;
use tokio::sync::Notify;

use crate::Error;

/// How often [`Worker::drain`] looks whether everything is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What works in the background: sends what waits, tries again what failed, picks up what a process
/// that died had in hand, removes what is old.
///
/// Any number of processes may run one on the same outbox. It works until it is stopped; dropping it
/// stops it without waiting.
#[must_use = "a worker stops when it is dropped"]
pub struct Worker {
    engine: Engine,
    wake: Arc<Notify>,
}

impl Worker {
    pub(crate) fn new(engine: Engine, wake: Arc<Notify>) -> Self {
        Self { engine, wake }
    }

    /// Lets it look for work at once. Good to call after a transaction with
    /// [`enqueue_in`](crate::Outbox::enqueue_in) was committed; without it, the email is found
    /// within half a second.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until nothing is left that is due: every such email was sent, given up, is uncertain,
    /// or waits for a later time.
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub async fn drain(&self) -> Result<(), Error> {
        let operator = &self.engine.operator;
        loop {
            self.wake();
            let statistics = operator.statistics().await?;
            let count = |status| statistics.by_status.get(&status).copied().unwrap_or(0);
            let is_due = statistics
                .oldest_waiting
                .is_some_and(|at| at <= operator.now());
            if !is_due && count(Status::Sending) == 0 && count(Status::RetryQueued) == 0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops it: takes nothing new, waits for what is being sent, and hands back what could not be
    /// sent in time. Everything else stays where it is, for the next start.
    pub async fn stop(self) {
        self.engine.stop().await;
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.engine.begin_stop();
    }
}
