//! How the way takes up again, second by second, and whether that is as slow as was promised.

use std::time::Duration;

use posthaste_core::way::BreakerRules;

/// So much of what the rules allow may go beyond it: a sender's clock and ours differ.
const TOLERANCE: f64 = 1.1;
/// And so many emails: the one that tested the way, and what may go at once.
const SLACK: f64 = 10.0;

/// When emails arrived after the mail server was back, in order.
#[derive(Debug, Default)]
pub(super) struct Arrivals(pub(super) Vec<Duration>);

impl Arrivals {
    /// When the last one came.
    pub(super) fn last(&self) -> Option<Duration> {
        self.0.last().copied()
    }

    /// When the first one came.
    pub(super) fn first(&self) -> Option<Duration> {
        self.0.first().copied()
    }

    /// How many came in each time of this length, up to the last of them.
    pub(super) fn per(&self, width: Duration) -> Vec<u64> {
        let mut counts = Vec::new();
        for time in &self.0 {
            let place = (time.as_secs_f64() / width.as_secs_f64()) as usize;
            if counts.len() <= place {
                counts.resize(place + 1, 0);
            }
            counts[place] += 1;
        }
        counts
    }

    /// The first moment at which more had come than the rules allow, with both numbers.
    pub(super) fn excess(&self, rules: &BreakerRules) -> Option<(Duration, usize, f64)> {
        let begin = self.first()?;
        self.0.iter().enumerate().find_map(|(place, time)| {
            let (ramping, count) = (*time - begin, place + 1);
            let allowed = allowed(rules, ramping)?;
            let is_over = count as f64 > allowed.mul_add(TOLERANCE, SLACK);
            is_over.then_some((ramping, count, allowed))
        })
    }
}

/// How many emails may have gone after so long; `None` for any number.
fn allowed(rules: &BreakerRules, ramping: Duration) -> Option<f64> {
    if ramping >= rules.ramp {
        return None;
    }
    let doubling = rules.ramp_doubling.as_secs_f64();
    let doublings = ramping.as_secs_f64() / doubling;
    Some(rules.ramp_rate * doubling / std::f64::consts::LN_2 * (doublings.exp2() - 1.0))
}

/// How many times the way is tested while the mail server is away for so long, by the rules.
pub(super) fn probes(rules: &BreakerRules, away: Duration) -> u64 {
    let (mut at, mut rest, mut probes) = (rules.first_probe, rules.first_probe, 0);
    while at < away {
        probes += 1;
        rest = (rest * 2).min(rules.longest_probe);
        at += rest;
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(millis: impl IntoIterator<Item = u64>) -> Arrivals {
        Arrivals(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn arrivals_are_counted_by_the_second() {
        let counted = arrivals([10, 999, 1000, 3500]).per(Duration::from_secs(1));
        assert_eq!(counted, [2, 1, 0, 1]);
    }

    #[test]
    fn a_stampede_is_too_much() {
        let rules = BreakerRules::default();
        // Five in a second at first: these are a hundred.
        let excess = arrivals((0..100).map(|n| 400 + n * 10)).excess(&rules);
        let (after, count, _) = excess.unwrap_or_default();
        assert!(after < Duration::from_secs(1) && count > 10, "{excess:?}");
    }

    #[test]
    fn a_ramp_is_not() {
        let rules = BreakerRules::default();
        let mut times = Vec::new();
        let mut due = 0.0;
        for millisecond in 0..60_000 {
            let seconds = Duration::from_millis(millisecond);
            while allowed(&rules, seconds).is_some_and(|allowed| allowed >= due) {
                times.push(millisecond);
                due += 1.0;
            }
        }
        assert!(times.len() > 100_000, "{}", times.len());
        assert_eq!(arrivals(times).excess(&rules), None);
    }

    #[test]
    fn a_way_is_tested_more_and_more_rarely() {
        let rules = BreakerRules::default();
        // After 10, 30, 70 and 130 seconds, then every minute.
        assert_eq!(probes(&rules, Duration::from_secs(9)), 0);
        assert_eq!(probes(&rules, Duration::from_secs(71)), 3);
        assert_eq!(probes(&rules, Duration::from_secs(7200)), 121);
    }
}
