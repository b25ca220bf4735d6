//! Work that is finished even if nobody waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Does this where it is waited for, which needs no task and no second wake-up. If whoever waits goes
/// away, a task does the rest.
pub(super) fn finish<F>(work: F) -> Finish<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    Finish {
        work: Some(Box::pin(work)),
        runtime: Handle::try_current().ok(),
    }
}

/// See [`finish`].
pub(super) struct Finish<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// Until it is done.
    work: Option<Pin<Box<F>>>,
    /// Where it was begun.
    runtime: Option<Handle>,
}

impl<F> Future for Finish<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out: should it panic, nobody goes on with it.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F> Drop for Finish<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), &self.runtime) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use tokio::sync::Notify;
    use tokio::time::{Duration, timeout};

    use super::*;

    /// More than it ever takes, so that a test fails instead of waiting for ever.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_was_begun_is_finished_whether_someone_waits_or_not() {
        assert_eq!(finish(async { 7 }).await, 7);
        let (go_on, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let work = {
            let (go_on, done) = (Arc::clone(&go_on), Arc::clone(&done));
            async move {
                go_on.notified().await;
                done.notify_one();
            }
        };
        let mut waiting = Box::pin(finish(work));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(waiting);
        go_on.notify_one();
        timeout(PATIENCE, done.notified()).await.expect("done");
    }

    #[tokio::test]
    async fn what_was_not_even_begun_is_done_too() {
        let done = Arc::new(Notify::new());
        let work = {
            let done = Arc::clone(&done);
            async move { done.notify_one() }
        };
        drop(finish(work));
        timeout(PATIENCE, done.notified()).await.expect("done");
    }
}
