//! When PostgreSQL was away: only then, and a little longer, may clients be put off.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After PostgreSQL answers again, everyone must have noticed within this time.
const GRACE: Duration = Duration::from_secs(5);

/// The times at which PostgreSQL was away.
#[derive(Default)]
pub(crate) struct Outages {
    /// Beginning and end; none: it lasts.
    windows: Mutex<Vec<(Instant, Option<Instant>)>>,
}

impl Outages {
    fn windows(&self) -> MutexGuard<'_, Vec<(Instant, Option<Instant>)>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) {
        self.windows().push((Instant::now(), None));
    }

    pub(crate) fn end(&self) {
        if let Some(last) = self.windows().last_mut() {
            last.1 = Some(Instant::now());
        }
    }

    /// Whether PostgreSQL was away then, or just before.
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
        outages.begin();
        let during = Instant::now();
        outages.end();
        let end = Instant::now();
        assert!(!outages.excuses(before));
        assert!(outages.excuses(during));
        assert!(outages.excuses(end + GRACE - Duration::from_millis(100)));
        assert!(!outages.excuses(end + GRACE + Duration::from_millis(100)));
    }
}
