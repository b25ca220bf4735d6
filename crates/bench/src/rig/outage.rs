//! When the database was away: only then, and a little longer, may clients be put off.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After it answers again, everyone must have noticed within this time.
const GRACE: Duration = Duration::from_secs(5);

/// The times at which the database was away.
#[derive(Default)]
pub(crate) struct Outages {
    /// Beginning and end; none: it lasts.
    windows: Mutex<Vec<(Instant, Option<Instant>)>>,
}

impl Outages {
    fn windows(&self) -> MutexGuard<'_, Vec<(Instant, Option<Instant>)>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is away from now on. The answer is which outage this is.
    pub(crate) fn begin(&self) -> usize {
        let mut windows = self.windows();
        windows.push((Instant::now(), None));
        windows.len() - 1
    }

    /// That outage is over.
    pub(crate) fn end(&self, outage: usize) {
        if let Some(window) = self.windows().get_mut(outage) {
            window.1 = Some(Instant::now());
        }
    }

    /// Somebody cannot reach it from now on, for so long.
    pub(crate) fn lasts(&self, length: Duration) {
        let now = Instant::now();
        self.windows().push((now, Some(now + length)));
    }

    /// Whether it was away then, or just before.
    pub(crate) fn excuses(&self, at: Instant) -> bool {
        self.windows()
            .iter()
            .any(|(begin, end)| at >= *begin && end.is_none_or(|end| at <= end + GRACE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_outage_and_a_little_longer_excuse() {
        let outages = Outages::default();
        let before = Instant::now();
        assert!(!outages.excuses(before));
        std::thread::sleep(Duration::from_millis(2));
        let outage = outages.begin();
        let during = Instant::now();
        outages.end(outage);
        let end = Instant::now();
        assert!(!outages.excuses(before));
        assert!(outages.excuses(during));
        assert!(outages.excuses(end + GRACE - Duration::from_millis(100)));
        assert!(!outages.excuses(end + GRACE + Duration::from_millis(100)));
    }
}
