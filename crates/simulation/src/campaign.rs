//! Many seeds, on several threads. Each run stays on one of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::port::Violation;

use crate::tally::Tally;
use crate::world::{Options, Simulator};

/// How often someone is told how far it got.
const TELL: Duration = Duration::from_secs(2);

/// Which seeds are run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The first one.
    pub first_seed: u64,
    /// How many, one after the other.
    pub runs: u64,
    /// On how many threads.
    pub threads: usize,
    /// What is run.
    pub options: Options,
    /// After this many seeds that break a promise no further one is begun.
    pub most_failures: usize,
}

/// A seed that breaks a promise.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which one.
    pub seed: u64,
    /// What it breaks.
    pub violations: Vec<Violation>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// How many seeds were run.
    pub runs: u64,
    /// What happened in all of them.
    pub tally: Tally,
    /// Which of them break a promise, in their order.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// How many runs there were in a minute.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn runs_per_minute(&self) -> f64 {
        self.runs as f64 * 60.0 / self.took.as_secs_f64().max(0.001)
    }
}

impl Campaign {
    /// Runs them all. Now and then `tell` gets to know how many are done.
    pub fn run(&self, tell: impl Fn(u64)) -> Report {
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        let is_enough = AtomicBool::new(false);
        let report = Mutex::new(Report::default());
        let lock = || report.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            let simulator = Simulator::new();
            while !is_enough.load(Ordering::SeqCst) {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= self.runs {
                    return;
                }
                let seed = self.first_seed.wrapping_add(number);
                let outcome = simulator.run(seed, self.options);
                let mut report = lock();
                report.runs += 1;
                report.tally.merge(&outcome.tally);
                if !outcome.violations.is_empty() {
                    let violations = outcome.violations;
                    report.failures.push(Failure { seed, violations });
                    if report.failures.len() >= self.most_failures {
                        is_enough.store(true, Ordering::SeqCst);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.max(1))
                .map(|_| scope.spawn(work))
                .collect();
            let mut told = Instant::now();
            while workers.iter().any(|worker| !worker.is_finished()) {
                std::thread::sleep(Duration::from_millis(5));
                if told.elapsed() >= TELL {
                    told = Instant::now();
                    tell(lock().runs);
                }
            }
        });
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failures.sort_by_key(|failure| failure.seed);
        report.took = begun.elapsed();
        report
    }
}
