//! Time, so that tests can hold it still.

use std::time::Instant;

use crate::{Timestamp, step};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now. Never goes back, whatever is done to the host's clock.
    fn now(&self) -> Timestamp;
}

/// The wall time at the start plus the monotonic time since: a step of the host's clock while
/// we run has no effect.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started_at: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// Reads the wall clock once.
    #[must_use]
    pub fn start() -> Self {
        Self {
            started_at: step::stepped(Timestamp::now()),
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started_at
            .checked_add(self.started.elapsed())
            .unwrap_or(Timestamp::MAX)
    }
}
