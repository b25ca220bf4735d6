//! Time that moves only when told.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::port::Clock;

/// 2100-01-01T00:00:00Z in microseconds. Later than any real clock, so that ids of emails, which
/// carry the real time, are older than everything that happens by this clock.
const START: i64 = 4_102_444_800_000_000;

/// A clock that stands still until it is advanced. Its time is always a whole microsecond, the
/// precision of the stores.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock that shows the start of the year 2100.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            micros: AtomicI64::new(START),
        }
    }

    /// Moves the time on, by whole microseconds.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("a duration of less than a century");
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let micros = self.micros.load(Ordering::SeqCst);
        Timestamp::from_microsecond(micros).expect("a time within range")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_until_it_is_advanced() {
        let clock = ManualClock::new();
        let start = clock.now();
        assert_eq!(start.to_string(), "2100-01-01T00:00:00Z");
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_millis(1500));
        let later = clock.now();
        assert_eq!(later, start + Duration::from_millis(1500));
    }
}
