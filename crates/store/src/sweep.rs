//! Finds emails that stay, but whose attempts or content are to go.
//!
//! No index holds what is over, because that is nearly everything. Ids sort by time of acceptance,
//! so the table is read in the order of its key, a piece at a time, up to what is too young. From
//! then on only what has become old enough is looked at; now and then all of it again, for those
//! that took long to end. Where it stands is kept in memory: to lose it costs a pass.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::Timestamp;
use uuid::Uuid;

/// At most this many rows are looked at in one piece.
pub(crate) const PIECE: usize = 5_000;
/// At most this many pieces are looked at in one round.
const PIECES: usize = 10;
/// How long after the end of a pass everything is looked at again.
const PASS: Duration = Duration::from_secs(6 * 3600);
/// Emails that end within this time are found without waiting for the next pass.
const OVERLAP: Duration = Duration::from_secs(600);

/// The smallest id that an email accepted at this time could have.
pub(crate) fn smallest_id(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

/// The query for rows of a piece of the table, and whether their attempts are to go. Names of tables
/// begin with `prefix`. `$1`: after this id, `$2`: before this one, `$3`: over since before this
/// time, `$4`: how many rows.
pub(crate) fn attempts(prefix: &str) -> String {
    format!(
        "SELECT id, coalesce(status IN ('sent', 'cancelled') AND finished_at < $3
             AND attempts_pruned_to < attempt_number, false)
         FROM {prefix}email_log WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4"
    )
}

/// The same for content.
pub(crate) fn content(prefix: &str) -> String {
    format!(
        "SELECT id, CASE WHEN finished_at < $3
             THEN EXISTS (SELECT 1 FROM {prefix}email e WHERE e.id = l.id AND e.erased_at IS NULL)
             ELSE false END
         FROM {prefix}email_log l WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4"
    )
}

/// Where the search stands.
#[derive(Default)]
pub(crate) struct Sweep(Mutex<Place>);

#[derive(Debug, Default, Clone, Copy)]
struct Place {
    after: Uuid,
    /// When all had been looked at; nothing while they still are.
    pass_ended_at: Option<Timestamp>,
}

/// A round of the search. It counts once what it found was dealt with: see [`Sweep::keep`].
pub(crate) struct Round {
    /// Emails to take something off.
    pub(crate) found: Vec<Uuid>,
    most: usize,
    now: Timestamp,
    newest: Timestamp,
    pieces: usize,
    reached_end: bool,
    next: Place,
}

/// What became of a round.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swept {
    /// How many emails something was taken off.
    pub(crate) stripped: u64,
    /// Whether there is more to look at.
    pub(crate) more: bool,
}

impl Sweep {
    /// Begins a round that finds at most so many emails. Those accepted before `newest` are old
    /// enough.
    pub(crate) fn round(&self, now: Timestamp, newest: Timestamp, most: usize) -> Round {
        Round {
            found: Vec::new(),
            most,
            now,
            newest,
            pieces: 0,
            reached_end: false,
            next: self.start(now),
        }
    }

    /// What this round found was dealt with, with so many emails stripped: the next one goes on
    /// after it.
    pub(crate) fn keep(&self, round: &Round, stripped: u64) -> Swept {
        *self.place() = round.next;
        Swept {
            stripped,
            more: !round.reached_end,
        }
    }

    /// Where the next round begins. A pass that has not reached the end goes on, however long it
    /// takes: what is newest must have its turn.
    fn start(&self, now: Timestamp) -> Place {
        let place = *self.place();
        let due = |ended: Timestamp| ended.checked_add(PASS).is_ok_and(|next| next <= now);
        if place.pass_ended_at.is_some_and(due) {
            Place::default()
        } else {
            place
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    /// After which id the next piece begins, if this round goes on.
    pub(crate) fn next_piece(&self) -> Option<Uuid> {
        let is_over = self.reached_end || self.pieces >= PIECES || self.found.len() >= self.most;
        (!is_over).then_some(self.next.after)
    }

    /// Takes in the rows of a piece, and which of them are wanted.
    pub(crate) fn take(&mut self, rows: &[(Uuid, bool)]) {
        self.pieces += 1;
        for (id, wanted) in rows {
            self.next.after = *id;
            self.found.extend(wanted.then_some(*id));
            if self.found.len() >= self.most {
                return;
            }
        }
        if rows.len() < PIECE {
            self.reached_end = true;
            let recent = self.newest.checked_sub(OVERLAP);
            let recent = smallest_id(recent.unwrap_or(Timestamp::UNIX_EPOCH));
            self.next.after = self.next.after.min(recent);
            self.next.pass_ended_at.get_or_insert(self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hours: u32) -> Timestamp {
        Timestamp::UNIX_EPOCH + HOUR * hours
    }

    /// A table of ids from 1 on, of which every so manieth is wanted.
    struct Table {
        rows: u128,
        wanted: u128,
    }

    impl Table {
        fn round(&self, sweep: &Sweep, now: Timestamp, most: usize) -> Round {
            let mut round = sweep.round(now, at(9), most);
            while let Some(after) = round.next_piece() {
                let ids = (after.as_u128() + 1..=self.rows).take(PIECE);
                let row = |n| (Uuid::from_u128(n), n % self.wanted == 0);
                round.take(&ids.map(row).collect::<Vec<_>>());
            }
            round
        }
    }

    fn numbers(round: &Round) -> Vec<u128> {
        round.found.iter().map(Uuid::as_u128).collect()
    }

    #[test]
    fn a_search_goes_on_where_it_was_cut_off() {
        let (sweep, table) = (Sweep::default(), Table { rows: 5, wanted: 2 });
        let round = table.round(&sweep, at(9), 1);
        assert_eq!(numbers(&round), [2]);
        assert!(sweep.keep(&round, 1).more);
        let round = table.round(&sweep, at(9), 9);
        assert_eq!(numbers(&round), [4]);
        let swept = sweep.keep(&round, 1);
        assert_eq!((swept.stripped, swept.more), (1, false));
    }

    #[test]
    fn what_was_not_dealt_with_is_found_again() {
        let (sweep, table) = (Sweep::default(), Table { rows: 5, wanted: 2 });
        for _ in 0..2 {
            assert_eq!(numbers(&table.round(&sweep, at(9), 9)), [2, 4]);
        }
    }

    #[test]
    fn a_pass_reaches_the_end_however_long_it_takes() {
        let last = (PIECE * PIECES * 3) as u128 + 1;
        let (rows, wanted) = (last, last);
        let (sweep, table) = (Sweep::default(), Table { rows, wanted });
        // A round takes as long as a whole pass should.
        for round in 0..3 {
            let round = table.round(&sweep, at(9 + 6 * round), 9);
            assert_eq!(numbers(&round), []);
            assert!(sweep.keep(&round, 0).more, "soon");
        }
        let round = table.round(&sweep, at(27), 9);
        assert_eq!(numbers(&round), [last]);
        assert!(!sweep.keep(&round, 1).more);
    }

    #[test]
    fn the_end_is_looked_at_again_and_everything_now_and_then() {
        let sweep = Sweep::default();
        let young = smallest_id(at(9));
        let mut round = sweep.round(at(9), at(9), 2);
        round.take(&[(young, false)]);
        assert_eq!(round.next_piece(), None);
        assert!(!sweep.keep(&round, 0).more);
        let again = sweep.start(at(9)).after;
        assert!(Uuid::nil() < again && again < young);
        assert_eq!(sweep.start(at(14)).after, again);
        assert_eq!(sweep.start(at(15)).after, Uuid::nil());
    }
}
