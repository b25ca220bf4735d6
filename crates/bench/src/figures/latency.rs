//! How long single things took.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Steps within each power of two: a value is off by less than 1 %.
const STEPS: u64 = 128;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Half were faster.
    pub(crate) p50_ms: f64,
    /// One in a hundred was slower.
    pub(crate) p99_ms: f64,
    /// The slowest.
    pub(crate) max_ms: f64,
}

/// Counts durations by their size in microseconds. Small, and as fast as adding one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_us: u64,
}

impl Histogram {
    /// One more.
    pub(crate) fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = place(us);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.max_us = self.max_us.max(us);
    }

    /// All of another one too.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.total += other.total;
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many were counted.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// The value below or at which this share of all is, in milliseconds.
    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return value(at).min(self.max_us) as f64 / 1e3;
            }
        }
        0.0
    }

    /// The percentiles of a report.
    pub(crate) fn latency(&self) -> Latency {
        Latency {
            p50_ms: self.percentile_ms(0.5),
            p99_ms: self.percentile_ms(0.99),
            max_ms: self.max_us as f64 / 1e3,
        }
    }
}

/// Which counter a value belongs to: exact up to twice the steps, then so many for each power of
/// two.
fn place(us: u64) -> usize {
    if us < 2 * STEPS {
        return us as usize;
    }
    let shift = us.ilog2() - STEP_BITS;
    (u64::from(shift) * STEPS + (us >> shift)) as usize
}

/// The highest value of a counter.
fn value(at: usize) -> u64 {
    let at = at as u64;
    if at < 2 * STEPS {
        return at;
    }
    let shift = at / STEPS - 1;
    let first = (at - shift * STEPS) << shift;
    first + (1 << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_where_it_is_found_again() {
        for us in (0..5_000).chain([65_535, 65_536, 999_999, 123_456_789]) {
            let found = value(place(us));
            assert!(found >= us, "{us} became {found}");
            assert!(
                (found - us) as f64 <= us as f64 / STEPS as f64,
                "{us} became {found}"
            );
        }
    }

    #[test]
    fn percentiles_are_right_within_one_percent() {
        let mut histogram = Histogram::default();
        for us in 1..=100_000 {
            histogram.record(Duration::from_micros(us));
        }
        let Latency {
            p50_ms,
            p99_ms,
            max_ms,
        } = histogram.latency();
        assert!((p50_ms / 50.0 - 1.0).abs() < 0.01, "{p50_ms}");
        assert!((p99_ms / 99.0 - 1.0).abs() < 0.01, "{p99_ms}");
        assert_eq!(max_ms, 100.0);
    }

    #[test]
    fn two_histograms_add_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_millis(1));
        other.record(Duration::from_secs(2));
        one.add(&other);
        assert_eq!((one.total(), one.latency().max_ms), (2, 2_000.0));
    }
}
