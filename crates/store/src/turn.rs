//! Whose turn it is when emails are claimed: high before normal before low, without starving anyone.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "sqlite")]
use posthaste_core::status::Priority;

/// Among this many claims, one begins with a lower priority.
const FAIRNESS: u64 = 8;

/// A priority as it is kept: what goes first is least. (PostgreSQL says it in SQL.)
#[cfg(feature = "sqlite")]
pub(crate) const fn place_of(priority: Priority) -> i16 {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// Counts claims.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU64);

/// How one claim looks for emails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The priorities as they are kept, in the order in which they are looked at.
    pub(crate) priorities: [i16; 3],
    /// Whether retries come before new emails of the same priority.
    pub(crate) retries_first: bool,
}

/// High, normal, low.
pub(crate) const IN_ORDER: [i16; 3] = [0, 1, 2];

impl Turn {
    const fn of(number: u64) -> Self {
        let round = number / FAIRNESS;
        let priorities = match (number % FAIRNESS == FAIRNESS - 1, round % 2) {
            (false, _) => IN_ORDER,
            (true, 0) => [2, 1, 0],
            (true, _) => [1, 2, 0],
        };
        Self {
            priorities,
            // By turns, also among the claims that begin with the same priority.
            retries_first: number % 2 != round / 2 % 2,
        }
    }
}

impl Turns {
    /// The next one.
    pub(crate) fn next(&self) -> Turn {
        Turn::of(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_turn_and_high_has_most() {
        let turns: Vec<Turn> = (0..64).map(Turn::of).collect();
        let begin_with = |first: i16| turns.iter().filter(move |t| t.priorities[0] == first);
        assert_eq!(begin_with(0).count(), 56);
        for first in 0..3 {
            for retries_first in [false, true] {
                let both = begin_with(first).filter(|t| t.retries_first == retries_first);
                assert!(both.count() >= 2, "{first} {retries_first}");
            }
        }
        for turn in turns {
            let mut all = turn.priorities;
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        }
    }

    #[test]
    fn new_emails_and_retries_take_turns() {
        let turns = Turns::default();
        let (first, second) = (turns.next(), turns.next());
        assert_ne!(first.retries_first, second.retries_first);
    }
}
