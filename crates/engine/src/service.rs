//! The one loop that every background service runs in.
//!
//! A service does one round of work and reports. The loop wakes it by signal and by timer, and
//! ends at shutdown between two rounds, never within one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use posthaste_core::port::StoreError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What a round of work came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// How many things were done.
    pub done: usize,
    /// Come again after this time; `None` for the service's own interval.
    pub again_in: Option<Duration>,
}

/// A background service. It takes no input, and doing a round twice does no harm.
#[async_trait]
pub trait Service: Send + Sync {
    /// Its name in logs.
    fn name(&self) -> &'static str;

    /// How long to rest when nothing else is known.
    fn interval(&self) -> Duration;

    /// One round of work.
    async fn run_once(&self) -> Result<Report, StoreError>;
}

/// After an error, a service rests for this long at first, then twice as long each time.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Runs a service until shutdown.
pub async fn run(service: Arc<dyn Service>, wake: Arc<Notify>, shutdown: CancellationToken) {
    let mut rest = FIRST_REST;
    while !shutdown.is_cancelled() {
        // A bug in one round must not end all further ones.
        let round = AssertUnwindSafe(service.run_once()).catch_unwind().await;
        let round = round.unwrap_or_else(|_| Err(StoreError::Failed("a round panicked".into())));
        let pause = match round {
            Ok(report) => {
                rest = FIRST_REST;
                report
                    .again_in
                    .unwrap_or_else(|| service.interval())
                    .min(service.interval())
            }
            Err(error) => {
                tracing::warn!(service = service.name(), %error, "could not do its work; will try again");
                let pause = rest;
                rest = (rest * 2).min(LONGEST_REST);
                pause
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Clumsy {
        rounds: AtomicUsize,
        shutdown: CancellationToken,
    }

    #[async_trait]
    impl Service for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        fn interval(&self) -> Duration {
            Duration::ZERO
        }

        async fn run_once(&self) -> Result<Report, StoreError> {
            match self.rounds.fetch_add(1, Ordering::SeqCst) {
                0 => panic!("as the test wants"),
                1 => Err(StoreError::Unavailable("as the test wants".into())),
                _ => {
                    self.shutdown.cancel();
                    Ok(Report::default())
                }
            }
        }
    }

    #[tokio::test]
    async fn a_service_survives_its_own_bugs() {
        let shutdown = CancellationToken::new();
        let service = Arc::new(Clumsy {
            rounds: AtomicUsize::new(0),
            shutdown: shutdown.clone(),
        });
        run(Arc::<Clumsy>::clone(&service), Arc::default(), shutdown).await;
        assert_eq!(service.rounds.load(Ordering::SeqCst), 3);
    }
}
