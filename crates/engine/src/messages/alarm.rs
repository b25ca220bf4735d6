//! Wakes the republisher, but only for what is due before it would wake by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_core::Timestamp;
use tokio::sync::Notify;

/// The moment for which the next round is planned.
pub(super) struct Alarm {
    planned: Mutex<Timestamp>,
    wake: Arc<Notify>,
}

impl Alarm {
    /// Nothing is planned: any news wakes.
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self {
            planned: Mutex::new(Timestamp::MAX),
            wake,
        }
    }

    /// The next round is planned for this moment.
    pub(super) fn plan(&self, at: Timestamp) {
        *self.planned() = at;
    }

    /// Something is due at this moment.
    pub(super) fn expect(&self, due: Timestamp) {
        let mut planned = self.planned();
        if due < *planned {
            *planned = due;
            self.wake.notify_one();
        }
    }

    fn planned(&self) -> MutexGuard<'_, Timestamp> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_what_is_due_earlier_wakes() {
        let wake = Arc::new(Notify::new());
        let alarm = Alarm::new(Arc::clone(&wake));
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        let woken = || wake.notified().now_or_never().is_some();
        alarm.plan(at(10));
        alarm.expect(at(12));
        assert!(!woken());
        alarm.expect(at(5));
        assert!(woken());
        alarm.expect(at(7));
        assert!(!woken(), "it comes at 5 and finds out about 7 then");
    }
}
