//! What all parts of a simulated world share: time, chance, the log, and what was seen to break a
//! promise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::port::Violation;
use tokio::time::Instant;

use crate::random::Random;
use crate::tally::Tally;

/// When every run begins: 2030-01-01T00:00:00Z.
const BEGINNING: i64 = 1_893_456_000;
/// At most this many breaches are kept of one run.
const MOST_VIOLATIONS: usize = 20;

/// Time, chance and the log of one run.
pub(crate) struct Nature {
    started: Instant,
    random: Mutex<Random>,
    tally: Mutex<Tally>,
    violations: Mutex<Vec<Violation>>,
    /// The log, if someone wants it.
    log: Option<Mutex<Vec<String>>>,
    is_calm: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nature {
    /// Must be called within the run's runtime: its time is the one that is told.
    pub(crate) fn new(seed: u64, logs: bool) -> Self {
        Self {
            started: Instant::now(),
            random: Mutex::new(Random::new(seed)),
            tally: Mutex::default(),
            violations: Mutex::default(),
            log: logs.then(Mutex::default),
            is_calm: AtomicBool::new(false),
        }
    }

    /// The time that everyone agrees on.
    pub(crate) fn now(&self) -> Timestamp {
        let beginning = Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH);
        beginning
            .checked_add(self.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    /// The time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Leaves something to chance.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut lock(&self.random))
    }

    /// Whether a fault comes about, which is counted. None does once the trouble is over.
    pub(crate) fn strikes(&self, fault: &'static str, per_thousand: u64) -> bool {
        let strikes = !self.is_calm() && self.draw(|random| random.happens(per_thousand));
        if strikes {
            self.count(fault);
        }
        strikes
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &'static str) {
        lock(&self.tally).add(what, 1);
    }

    /// The trouble is over: from now on everything works.
    pub(crate) fn calm_down(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
        self.say("world", || "the trouble is over".into());
    }

    /// Whether the trouble is over.
    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    /// Writes a line of the log.
    pub(crate) fn say(&self, who: &str, what: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            let at = self.elapsed().as_secs_f64();
            lock(log).push(format!("{at:>10.3} {who:<9} {}", what()));
        }
    }

    /// A promise was broken.
    pub(crate) fn breach(&self, invariant: &'static str, detail: String) {
        self.say("BREACH", || format!("{invariant}: {detail}"));
        let mut violations = lock(&self.violations);
        if violations.len() < MOST_VIOLATIONS {
            violations.push(Violation { invariant, detail });
        }
    }

    /// Whether a promise was broken.
    pub(crate) fn is_broken(&self) -> bool {
        !lock(&self.violations).is_empty()
    }

    /// What was seen: counts, breaches, the log.
    pub(crate) fn seen(&self) -> (Tally, Vec<Violation>, Vec<String>) {
        let log = self.log.as_ref().map(|log| std::mem::take(&mut *lock(log)));
        (
            std::mem::take(&mut *lock(&self.tally)),
            std::mem::take(&mut *lock(&self.violations)),
            log.unwrap_or_default(),
        )
    }
}
