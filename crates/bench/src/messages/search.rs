//! The highest rate at which the whole loop keeps up, found by trying.

use super::lane::Lane;
use super::live::{Lived, Load};
use crate::processor::wait_for_calm;
use crate::rig::journal::Journal;
use crate::server::Server;

/// The next rate after one that was kept up with, or not.
const UP: f64 = 1.2;
const DOWN: f64 = 0.8;
/// Rates closer together than this are the same.
const CLOSE: f64 = 1.06;

impl Lane<'_> {
    /// Tries rates, the given one first. The answers are in the order of the tries.
    pub(super) async fn search(
        &self,
        first: f64,
        server: &Server,
        journal: &Journal,
    ) -> anyhow::Result<Vec<Lived>> {
        let mut tries = Vec::new();
        let mut bounds = Bounds::default();
        let mut rate = first;
        for _ in 0..self.options.steps {
            wait_for_calm(self.options.calm.0).await;
            let time = self.options.step_time.0;
            let lived = self.live(Load { rate, time }, server, journal).await?;
            self.settle_all().await?;
            journal.line(&lived.line());
            bounds.learn(rate, lived.kept_up());
            tries.push(lived);
            match bounds.next() {
                Some(next) => rate = next,
                None => break,
            }
        }
        Ok(tries)
    }
}

/// The highest rate that was kept up with, and the lowest that was not.
#[derive(Debug, Default)]
struct Bounds {
    kept_up: Option<f64>,
    too_fast: Option<f64>,
}

impl Bounds {
    fn learn(&mut self, rate: f64, kept_up: bool) {
        match kept_up {
            true => self.kept_up = Some(self.kept_up.map_or(rate, |best| best.max(rate))),
            false => self.too_fast = Some(self.too_fast.map_or(rate, |least| least.min(rate))),
        }
    }

    /// What to try next, if that is worth a try.
    fn next(&self) -> Option<f64> {
        match (self.kept_up, self.too_fast) {
            (Some(low), Some(high)) if high / low < CLOSE => None,
            (Some(low), Some(high)) => Some((low + high) / 2.0),
            (Some(low), None) => Some(low * UP),
            (None, Some(high)) => Some(high * DOWN),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_goes_up_until_it_is_too_fast_and_then_in_between() {
        let mut bounds = Bounds::default();
        bounds.learn(1000.0, true);
        assert_eq!(bounds.next(), Some(1200.0));
        bounds.learn(1200.0, false);
        assert_eq!(bounds.next(), Some(1100.0));
        bounds.learn(1100.0, false);
        assert_eq!(bounds.next(), Some(1050.0));
        bounds.learn(1050.0, true);
        assert_eq!(bounds.next(), None);
    }

    #[test]
    fn a_rate_that_is_too_fast_from_the_start_goes_down() {
        let mut bounds = Bounds::default();
        bounds.learn(1000.0, false);
        assert_eq!(bounds.next(), Some(800.0));
    }
}
