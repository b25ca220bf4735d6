//! Where a search for what is due begins.
//!
//! What was claimed leaves dead entries in the index, and as long as a transaction anywhere on the
//! server is older than they are, nobody may remove them: a search from the beginning would walk
//! over all of them again and again. So it begins shortly before where the last one found something.
//! Each priority and each kind of waiting email has a place of its own, so that what is claimed of
//! one hides nothing of another.
//! What lies below (its transaction was long, or someone held it for a moment) is found by a search
//! from the beginning, now and then: as often as may be without costing much.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::Timestamp;

use super::claim::Part;
use crate::turn::IN_ORDER;

/// Searches from the beginning are this far apart at least, …
const SHORTEST: Duration = Duration::from_millis(500);
/// … and take this part of all time at most, …
const SHARE: u32 = 20;
/// … unless they would be further apart than this.
const LONGEST: Duration = Duration::from_secs(5);
/// How far below the last find a search begins.
const SLACK: Duration = Duration::from_secs(2);
/// Before everything.
const BEGINNING: Timestamp = Timestamp::UNIX_EPOCH;

/// Where searches begin.
#[derive(Default)]
pub(super) struct Floor(Mutex<State>);

#[derive(Default)]
struct State {
    /// By priority, and by kind within it.
    at: Vec<Timestamp>,
    /// When it is time for a search from the beginning.
    due: Option<Timestamp>,
    /// Whether the last one took so long that they have to be rare.
    is_slow: bool,
}

/// One search.
pub(super) struct Look {
    /// Where it begins: by priority, and by kind within it.
    pub(super) from: Vec<Timestamp>,
    is_whole: bool,
    since: Instant,
}

/// An email that a search found: where it stood, and since when it is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) place: usize,
    pub(super) due: Timestamp,
}

fn after(time: Timestamp, rest: Duration) -> Timestamp {
    time.checked_add(rest).unwrap_or(Timestamp::MAX)
}

/// The place of a kind of email within a priority, among so many kinds.
pub(super) fn place(priority: i16, kind: usize, kinds: usize) -> usize {
    usize::try_from(priority).unwrap_or_default() * kinds + kind
}

/// A search of everything, for so many kinds.
pub(super) fn from_the_beginning(kinds: usize) -> Vec<Timestamp> {
    vec![BEGINNING; IN_ORDER.len() * kinds]
}

impl Floor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a search for so many kinds.
    pub(super) fn look(&self, kinds: usize, now: Timestamp) -> Look {
        let mut state = self.state();
        let is_whole = state.due.is_none_or(|due| due <= now);
        let from = from_the_beginning(kinds);
        if is_whole {
            // Others need not search from the beginning at the same time.
            state.due = Some(after(now, SHORTEST));
        }
        if state.at.len() != from.len() {
            state.at.clone_from(&from);
        }
        Look {
            from: if is_whole { from } else { state.at.clone() },
            is_whole,
            since: Instant::now(),
        }
    }

    /// Where to look for what comes next among so many kinds, and until when that is good enough: for
    /// ever, unless searches from the beginning take so long that they have to be rare.
    pub(super) fn ahead(&self, kinds: usize) -> (Vec<Timestamp>, Option<Timestamp>) {
        let state = self.state();
        let from = from_the_beginning(kinds);
        match state.is_slow && state.at.len() == from.len() {
            true => (state.at.clone(), state.due),
            false => (from, None),
        }
    }

    /// Learns what a search found that went through these priorities and parts in their order, and
    /// whether it ended because it had enough.
    pub(super) fn saw(
        &self,
        look: &Look,
        priorities: &[i16],
        parts: &[Part],
        found: &[Found],
        is_full: bool,
        now: Timestamp,
    ) {
        let mut state = self.state();
        if look.is_whole {
            let rest = (look.since.elapsed() * SHARE).clamp(SHORTEST, LONGEST);
            state.due = Some(after(now, rest));
            state.is_slow = rest > SHORTEST;
        }
        // Where it ended there may be more; what comes after was not looked at.
        let end = found.last().filter(|_| is_full).map(|last| last.place);
        for priority in priorities {
            for part in parts {
                let place = place(*priority, part.kind, parts.len());
                let Some(at) = state.at.get_mut(place) else {
                    continue;
                };
                let here = found.iter().filter(|found| found.place == place);
                let first = here.map(|found| found.due).min();
                let is_end = end == Some(place);
                let until = part.until.map_or(now, |until| until.min(now));
                let seen_up_to = first.filter(|_| is_end).unwrap_or(until);
                *at = seen_up_to.checked_sub(SLACK).unwrap_or(BEGINNING);
                if is_end {
                    return;
                }
            }
        }
    }
}

/// Where a search begins among times that only lie ahead when they are written: leases. What was not
/// there at its time can only come below it by a transaction that took longer than its lease.
#[derive(Default)]
pub(super) struct TimeFloor(Mutex<Option<Passed>>);

#[derive(Clone, Copy)]
struct Passed {
    /// There was nothing up to here.
    at: Timestamp,
    /// When it is time for a search from the beginning.
    whole_due: Timestamp,
}

impl TimeFloor {
    /// How far below the last empty search the next one begins.
    const SLACK: Duration = Duration::from_secs(10);
    /// How far searches from the beginning are apart.
    const WHOLE: Duration = Duration::from_secs(30);

    fn passed(&self) -> MutexGuard<'_, Option<Passed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a search begins now.
    pub(super) fn look(&self, now: Timestamp) -> Timestamp {
        let passed = self.passed().filter(|passed| passed.whole_due > now);
        passed.map_or(BEGINNING, |passed| passed.at)
    }

    /// A search that began here has found nothing, or something.
    pub(super) fn saw(&self, from: Timestamp, is_empty: bool, now: Timestamp) {
        let mut passed = self.passed();
        let whole_due = match *passed {
            Some(passed) if from > BEGINNING => passed.whole_due,
            _ => after(now, Self::WHOLE),
        };
        let at = now.checked_sub(Self::SLACK).unwrap_or(BEGINNING);
        *passed = is_empty.then_some(Passed { at, whole_due });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_looked_for_where_there_was_nothing_only_now_and_then() {
        let floor = TimeFloor::default();
        assert_eq!(floor.look(second(100)), BEGINNING);
        floor.saw(BEGINNING, true, second(100));
        assert_eq!(floor.look(second(101)), second(90));
        floor.saw(second(90), true, second(120));
        assert_eq!(floor.look(second(129)), second(110));
        assert_eq!(floor.look(second(130)), BEGINNING);
        // Whoever found something looks everywhere.
        floor.saw(second(110), false, second(129));
        assert_eq!(floor.look(second(129)), BEGINNING);
    }

    #[test]
    fn what_comes_next_is_looked_for_everywhere_unless_that_takes_long() {
        let floor = Floor::default();
        let look = floor.look(2, second(NOW));
        floor.saw(&look, &IN_ORDER, &PARTS, &[], false, second(NOW));
        assert_eq!(floor.ahead(2), (vec![BEGINNING; 6], None));
        let look = Look {
            since: Instant::now()
                .checked_sub(Duration::from_millis(100))
                .unwrap(),
            ..floor.look(2, second(NOW + 1))
        };
        floor.saw(&look, &IN_ORDER, &PARTS, &[], false, second(NOW + 1));
        let (from, until) = floor.ahead(2);
        assert_eq!(from, [second(NOW - 1); 6]);
        assert!(until.is_some_and(|until| until > second(NOW + 2)));
    }

    const PARTS: [Part; 2] = [
        Part {
            kind: 0,
            condition: "",
            until: None,
        },
        Part {
            kind: 1,
            condition: "",
            until: None,
        },
    ];

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    fn found(place: usize, due: i64) -> Found {
        let due = second(due);
        Found { place, due }
    }

    const NOW: i64 = 5000;

    /// A search that found these, and where the next one begins.
    fn next_after(floor: &Floor, found: &[Found], is_full: bool) -> Vec<i64> {
        let look = floor.look(2, second(NOW));
        floor.saw(&look, &IN_ORDER, &PARTS, found, is_full, second(NOW));
        let next = floor.look(2, second(NOW));
        next.from.iter().map(|at| at.as_second()).collect()
    }

    #[test]
    fn the_first_search_is_from_the_beginning_and_the_next_from_where_something_was() {
        let floor = Floor::default();
        assert!(floor.look(2, second(NOW)).is_whole);
        let floor = Floor::default();
        let next = next_after(&floor, &[found(0, 1000), found(0, 1001)], true);
        // Nobody has looked at the others yet.
        assert_eq!(next, [998, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_found_of_one_kind_hides_nothing_of_another() {
        let floor = Floor::default();
        let next = next_after(&floor, &[found(0, 3000), found(2, 1000)], true);
        assert_eq!(next, [4998, 4998, 998, 0, 0, 0]);
    }

    #[test]
    fn once_all_was_found_a_search_begins_at_the_present() {
        let floor = Floor::default();
        assert_eq!(next_after(&floor, &[found(1, 1000)], false), [4998; 6]);
    }

    #[test]
    fn what_is_looked_for_only_up_to_some_time_is_not_passed_over() {
        let floor = Floor::default();
        let mut parts = PARTS;
        parts[1].until = Some(second(4000));
        let look = floor.look(2, second(NOW));
        floor.saw(&look, &IN_ORDER, &parts, &[], false, second(NOW));
        let next = floor.look(2, second(NOW)).from;
        assert_eq!(next[..2], [second(4998), second(3998)]);
    }

    #[test]
    fn searches_from_the_beginning_come_again_and_the_rarer_the_longer_they_take() {
        let rest_after = |time: Duration| {
            let floor = Floor::default();
            let look = Look {
                since: Instant::now().checked_sub(time).unwrap(),
                ..floor.look(2, second(NOW))
            };
            floor.saw(&look, &IN_ORDER, &PARTS, &[], false, second(NOW));
            let rests: Vec<i64> = (0..10)
                .filter(|rest| !floor.look(2, second(NOW + rest)).is_whole)
                .collect();
            rests.len()
        };
        assert_eq!(rest_after(Duration::ZERO), 1, "half a second");
        assert_eq!(rest_after(Duration::from_millis(110)), 3);
        assert_eq!(rest_after(Duration::from_secs(60)), 5);
    }
}
