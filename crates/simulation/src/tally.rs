//! What happened, by kind and number.

use std::collections::BTreeMap;
use std::fmt;

/// How often each kind of thing happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// It happened so many times more.
    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// How often it happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// Takes over what another run saw.
    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, times) in &self.0 {
            writeln!(f, "  {what:<44} {times:>12}")?;
        }
        Ok(())
    }
}
