//! The database's time, as well as it can be known without asking.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::Timestamp;

/// The database's time at a moment of ours, kept up to date by every answer that carries it.
pub(super) struct DatabaseClock {
    known: Mutex<(Timestamp, Instant)>,
}

impl DatabaseClock {
    pub(super) fn new(at: Timestamp) -> Self {
        Self {
            known: Mutex::new((at, Instant::now())),
        }
    }

    /// Not later than the database's own time, and hardly earlier. In whole microseconds, the
    /// precision of the database.
    pub(super) fn now(&self) -> Timestamp {
        let (at, then) = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = plus(at, then.elapsed());
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// Learns that it was `at` in the database at some moment since we `asked`.
    pub(super) fn learn(&self, at: Timestamp, asked: Instant) {
        let received = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let believed = plus(known.0, received.saturating_duration_since(known.1));
        let latest = plus(at, received.saturating_duration_since(asked));
        // Behind for certain, or ahead for certain: our clock and the database's drift apart.
        if believed < at || believed > latest {
            *known = (at, received);
        }
    }
}

fn plus(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    #[test]
    fn it_follows_the_database_forward_and_back() {
        let clock = DatabaseClock::new(second(1000));
        clock.learn(second(2000), Instant::now());
        assert!(clock.now() >= second(2000));
        clock.learn(second(1500), Instant::now());
        assert!(clock.now() < second(2000));
    }

    #[test]
    fn an_answer_that_took_long_does_not_put_it_back() {
        let clock = DatabaseClock::new(second(1000));
        let asked = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        clock.learn(second(990), asked);
        assert!(clock.now() >= second(1000));
    }
}
