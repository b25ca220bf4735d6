//! Where a search for what is due begins.
//!
//! What was claimed leaves dead entries in the index, and as long as a transaction anywhere on the
//! server is older than they are, nobody may remove them: a search from the beginning would walk
//! over all of them again and again. So it begins shortly before where the last one found something.
//! What lies below (its transaction was long, or someone held it for a moment) is found by a search
//! from the beginning, now and then: as often as may be without costing much.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::Timestamp;

/// Searches from the beginning are this far apart at least, …
const SHORTEST: Duration = Duration::from_millis(500);
/// … and take this part of all time at most.
const SHARE: u32 = 20;
/// How far below the last find a search begins.
const SLACK: Duration = Duration::from_secs(2);
/// Before everything.
pub(super) const BEGINNING: Timestamp = Timestamp::UNIX_EPOCH;

/// Where searches begin.
#[derive(Default)]
pub(super) struct Floor(Mutex<State>);

#[derive(Default)]
struct State {
    at: Option<Timestamp>,
    /// When it is time for a search from the beginning.
    due: Option<Instant>,
}

/// One search.
pub(super) struct Look {
    /// Where it begins.
    pub(super) from: Timestamp,
    since: Instant,
}

impl Floor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a search.
    pub(super) fn look(&self) -> Look {
        let since = Instant::now();
        let mut state = self.state();
        let is_due = state.due.is_none_or(|due| due <= since);
        if is_due {
            // Others need not search from the beginning at the same time.
            state.due = Some(since + SHORTEST);
        }
        let from = state.at.filter(|_| !is_due).unwrap_or(BEGINNING);
        Look { from, since }
    }

    /// Learns what a search found: when the first of them was due, and whether there may be more.
    pub(super) fn saw(&self, look: &Look, first: Option<Timestamp>, is_full: bool, now: Timestamp) {
        let mut state = self.state();
        if look.from == BEGINNING {
            let rest = (look.since.elapsed() * SHARE).max(SHORTEST);
            state.due = Some(Instant::now() + rest);
        }
        let at = first.filter(|_| is_full).unwrap_or(now);
        state.at = at.checked_sub(SLACK).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    #[test]
    fn the_first_search_is_from_the_beginning_and_the_next_from_where_something_was() {
        let floor = Floor::default();
        let first = floor.look();
        assert_eq!(first.from, BEGINNING);
        floor.saw(&first, Some(second(1000)), true, second(5000));
        assert_eq!(floor.look().from, second(998));
    }

    #[test]
    fn once_all_was_found_a_search_begins_at_the_present() {
        let floor = Floor::default();
        let first = floor.look();
        floor.saw(&first, Some(second(1000)), false, second(5000));
        assert_eq!(floor.look().from, second(4998));
    }

    #[test]
    fn searches_from_the_beginning_come_again_and_the_rarer_the_longer_they_take() {
        let floor = Floor::default();
        let first = floor.look();
        floor.saw(&first, None, false, second(5000));
        floor.state().due = Some(Instant::now());
        let again = floor.look();
        assert_eq!(again.from, BEGINNING);
        let long = Look {
            from: BEGINNING,
            since: Instant::now().checked_sub(Duration::from_secs(1)).unwrap(),
        };
        floor.saw(&long, None, false, second(5000));
        let due = floor.state().due.unwrap();
        assert!(due > Instant::now() + Duration::from_secs(15));
    }
}
