//! Where templates are rendered: on threads that may take their time, a few at once, so that those
//! who answer callers never wait for it.

use std::panic::resume_unwind;
use std::sync::Arc;

use posthaste_core::port::{StoreError, StoreResult};
use tokio::sync::Semaphore;

/// Does work beside the executor.
pub(super) struct Aside {
    turns: Arc<Semaphore>,
}

impl Aside {
    /// As much at once as there are processors.
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            turns: Arc::new(Semaphore::new(processors)),
        }
    }

    /// Does it on a thread of its own, when it is its turn.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> StoreResult<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work ends, also when nobody waits for it any more.
            let _turn = turn;
            work()
        });
        done.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(stopped) => StoreError::Unavailable(stopped.to_string()),
        })
    }
}
