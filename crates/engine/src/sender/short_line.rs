//! Room that is free again soon, and a short wait for it.
//!
//! An email that begins as it is accepted costs a good deal less than one that is put down and taken
//! up again. So whoever finds no room waits for it, but only a moment, and not at all where the
//! last one has waited in vain: a mail server that hangs must not slow down those who hand in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long room is waited for.
const MOMENT: Duration = Duration::from_millis(50);
/// After one has waited in vain, nobody waits for this long.
const REST: Duration = Duration::from_secs(1);

/// Room for a number of attempts.
pub(super) struct ShortLine {
    permits: Arc<Semaphore>,
    /// When it makes sense again to wait.
    waits_from: Mutex<Option<Instant>>,
}

impl ShortLine {
    pub(super) fn new(places: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(places)),
            waits_from: Mutex::new(None),
        }
    }

    /// All of its places, for one who needs them all.
    pub(super) const fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// A place, if there is one or one comes free in a moment.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(place);
        }
        if self.waits_from().is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let place = timeout(MOMENT, Arc::clone(&self.permits).acquire_owned()).await;
        if place.is_err() {
            *self.waits_from() = Some(Instant::now() + REST);
        }
        place.ok()?.ok()
    }

    fn waits_from(&self) -> impl std::ops::DerefMut<Target = Option<Instant>> {
        let lock = self.waits_from.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_that_comes_free_in_a_moment_is_waited_for() {
        let line = ShortLine::new(1);
        let first = line.place().await;
        assert!(first.is_some());
        let leaves = async {
            tokio::time::sleep(MOMENT / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(line.place(), leaves);
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn after_one_has_waited_in_vain_the_others_do_not_wait() {
        let line = ShortLine::new(1);
        let first = line.place().await;
        let began = Instant::now();
        assert!(line.place().await.is_none());
        assert!(began.elapsed() >= MOMENT);
        let began = Instant::now();
        assert!(line.place().await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO);
        // Whatever is free can be had all the same.
        drop(first);
        let again = line.place().await;
        assert!(again.is_some());
        tokio::time::advance(REST).await;
        let leaves = async {
            tokio::time::sleep(MOMENT / 2).await;
            drop(again);
        };
        let (next, ()) = tokio::join!(line.place(), leaves);
        assert!(next.is_some());
    }
}
