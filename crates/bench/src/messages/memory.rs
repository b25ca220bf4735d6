//! How much memory a process has while it works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::server::memory_mib;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The memory may grow by so much from the middle third of the time to the last.
const GROWTH: f64 = 1.05;

/// What is looked at all the time until dropped.
pub(super) struct Watch {
    samples: Arc<Mutex<Vec<(Duration, f64)>>>,
    looking: JoinHandle<()>,
}

/// The memory over a time, in MiB.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Vec<f64>);

impl Memory {
    /// Looks at a process from now on.
    pub(super) fn watch(process: u32) -> Watch {
        let begun = Instant::now();
        let samples = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&samples);
        let looking = tokio::spawn(async move {
            while let Ok(mib) = memory_mib(process, "VmRSS:") {
                let sample = (begun.elapsed(), mib);
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(sample);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Watch { samples, looking }
    }

    pub(super) fn first(&self) -> f64 {
        self.0.first().copied().unwrap_or_default()
    }

    pub(super) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    pub(super) fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// The means of the middle and the last third.
    pub(super) fn thirds(&self) -> (f64, f64) {
        let third = (self.0.len() / 3).max(1);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let mut from_the_end = self.0.rchunks(third);
        let last = from_the_end.next().map_or(0.0, mean);
        let middle = from_the_end.next().map_or(last, mean);
        (middle, last)
    }

    /// Whether it stays as it is.
    pub(super) fn is_flat(&self) -> bool {
        let (middle, last) = self.thirds();
        last <= middle * GROWTH
    }
}

impl Watch {
    /// What was seen between two moments after the beginning.
    pub(super) fn between(self, from: Duration, until: Duration) -> Memory {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = samples.iter().filter(|(at, _)| (from..until).contains(at));
        Memory(wanted.map(|(_, mib)| *mib).collect())
    }

    /// Everything that was seen so far.
    pub(super) fn so_far(&self) -> Memory {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        Memory(samples.iter().map(|(_, mib)| *mib).collect())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_third_may_not_grow() {
        let grown_at_first = Memory(vec![10.0, 15.0, 20.0, 20.0, 20.0, 20.5]);
        assert!(grown_at_first.is_flat());
        let growing = Memory(vec![20.0, 20.0, 20.0, 20.0, 22.0, 23.0]);
        assert!(!growing.is_flat());
        assert_eq!(growing.thirds(), (20.0, 22.5));
    }
}
