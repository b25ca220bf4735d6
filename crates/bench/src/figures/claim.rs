//! A promise about figures: a ratio or a value, and its limit.

use serde::{Deserialize, Serialize};

use super::{Figure, median};

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
}

impl Limit {
    /// Whether a value keeps to it. A value that is none does not.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    /// For people.
    pub(crate) fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least} {unit}"),
            Self::AtMost(most) => format!("≤ {most} {unit}"),
        }
    }
}

/// A promise, and what was seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// Such as `embedded, live, beside the probe`.
    pub(crate) what: String,
    /// What is promised.
    pub(crate) limit: Limit,
    /// `×` for ratios.
    pub(crate) unit: String,
    /// What was seen: the median of the rounds.
    pub(crate) seen: f64,
    /// What each round gave, if both sides were measured in each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rounds: Vec<f64>,
    /// Whether it held.
    pub(crate) held: bool,
}

impl Claim {
    /// One figure over another that was measured in the same rounds: the median of the rounds'
    /// ratios, because the machine's speed changes from round to round.
    pub(crate) fn by_round(what: &str, ours: &Figure, theirs: &Figure, limit: Limit) -> Self {
        if ours.runs.len() != theirs.runs.len() {
            return Self::of_medians(what, ours, theirs, limit);
        }
        let pairs = ours.runs.iter().zip(&theirs.runs);
        let rounds: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        let seen = median(&rounds);
        Self::seen(what, seen, rounds, "×", limit)
    }

    /// One figure's median over another's, for those that were measured one after the other.
    pub(crate) fn of_medians(what: &str, ours: &Figure, theirs: &Figure, limit: Limit) -> Self {
        let seen = ours.median() / theirs.median();
        Self::seen(what, seen, Vec::new(), "×", limit)
    }

    /// A value that has a limit of its own.
    pub(crate) fn of_value(what: &str, seen: f64, unit: &str, limit: Limit) -> Self {
        Self::seen(what, seen, Vec::new(), unit, limit)
    }

    /// Ratios that were taken otherwise, one in each round.
    pub(crate) fn of_rounds(what: &str, rounds: Vec<f64>, unit: &str, limit: Limit) -> Self {
        let seen = median(&rounds);
        Self::seen(what, seen, rounds, unit, limit)
    }

    fn seen(what: &str, seen: f64, rounds: Vec<f64>, unit: &str, limit: Limit) -> Self {
        Self {
            what: what.to_owned(),
            limit,
            unit: unit.to_owned(),
            seen,
            rounds,
            held: limit.holds(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Kind, Who};

    fn figure(runs: &[f64]) -> Figure {
        Figure::rate(Kind::Live, Who::Posthaste, "x", "email/s", runs.to_vec())
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_ratios() {
        // The machine was twice as slow in the second round; medians alone would say 0.5.
        let (ours, theirs) = (figure(&[90.0, 50.0, 110.0]), figure(&[100.0, 50.0, 180.0]));
        let claim = Claim::by_round("x", &ours, &theirs, Limit::AtLeast(0.9));
        assert_eq!(claim.rounds, [0.9, 1.0, 110.0 / 180.0]);
        assert_eq!(claim.seen, 0.9);
        assert!(claim.held);
    }

    #[test]
    fn figures_of_different_rounds_are_held_against_each_other_by_their_medians() {
        let (ours, theirs) = (figure(&[10.0, 20.0, 30.0]), figure(&[5.0]));
        let claim = Claim::by_round("x", &ours, &theirs, Limit::AtLeast(4.1));
        assert_eq!((claim.seen, claim.held), (4.0, false));
    }

    #[test]
    fn limits_include_their_own_value_and_nothing_is_never_enough() {
        assert!(Limit::AtLeast(0.7).holds(0.7));
        assert!(!Limit::AtLeast(0.7).holds(0.699));
        assert!(Limit::AtMost(1.5).holds(1.5));
        assert!(!Limit::AtMost(1.5).holds(1.501));
        for limit in [Limit::AtLeast(0.0), Limit::AtMost(1e9)] {
            assert!(!limit.holds(f64::NAN));
        }
    }
}
