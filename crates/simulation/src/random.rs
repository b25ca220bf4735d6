//! Chance, from a seed. The same seed gives the same numbers on every machine and in every version:
//! a seed that found something must find it again.

use std::time::Duration;

/// A sequence of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number from the first to the last, with both.
    pub(crate) const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Whether something happens that does so in so many of a thousand cases.
    pub(crate) const fn happens(&mut self, per_thousand: u64) -> bool {
        self.below(1000) < per_thousand
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len() as u64);
        &of[usize::try_from(at).unwrap_or_default()]
    }

    /// So many milliseconds, from the first to the last.
    pub(crate) const fn milliseconds(&mut self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.between(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(7);
        let numbers: Vec<u64> = (0..4).map(|_| random.below(1000)).collect();
        assert_eq!(numbers, [487, 804, 346, 203]);
    }

    #[test]
    fn what_always_happens_happens_and_what_never_does_does_not() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.happens(1000)));
        assert!(!(0..1000).any(|_| random.happens(0)));
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
    }
}
