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
pub(crate) const PIECES: usize = 10;
/// How often everything is looked at again.
const PASS: Duration = Duration::from_secs(6 * 3600);
/// Emails that end within this time are found without waiting for the next pass.
const OVERLAP: Duration = Duration::from_secs(600);

/// The smallest id that an email accepted at this time could have.
pub(crate) fn smallest_id(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

/// Rows of a piece of the table, and whether their attempts are to go. `$1`: after this id, `$2`:
/// before this one, `$3`: over since before this time, `$4`: how many rows.
pub(crate) const ATTEMPTS: &str =
    "SELECT id, coalesce(status IN ('sent', 'cancelled') AND finished_at < $3
         AND attempts_pruned_to < attempt_number, false)
     FROM email_log WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4";

/// The same for content.
pub(crate) const CONTENT: &str = "SELECT id, CASE WHEN finished_at < $3
         THEN EXISTS (SELECT 1 FROM email e WHERE e.id = l.id AND e.erased_at IS NULL)
         ELSE false END
     FROM email_log l WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4";

/// Where the search stands.
#[derive(Default)]
pub(crate) struct Sweep(Mutex<Place>);

#[derive(Default)]
struct Place {
    after: Uuid,
    pass_began_at: Option<Timestamp>,
}

impl Sweep {
    /// After which id the next piece begins.
    pub(crate) fn start(&self, now: Timestamp) -> Uuid {
        let mut place = self.place();
        let due = |began: Timestamp| began.checked_add(PASS).is_ok_and(|end| end <= now);
        if place.pass_began_at.is_none_or(due) {
            *place = Place {
                after: Uuid::nil(),
                pass_began_at: Some(now),
            };
        }
        place.after
    }

    /// Takes in a piece: its rows, and which of them are wanted. Gives at most `most` of these,
    /// and whether there is more to look at. Emails accepted before `newest` are old enough.
    pub(crate) fn sift(
        &self,
        rows: &[(Uuid, bool)],
        most: usize,
        newest: Timestamp,
    ) -> (Vec<Uuid>, bool) {
        let wanted: Vec<Uuid> = rows
            .iter()
            .filter(|(_, wanted)| *wanted)
            .map(|(id, _)| *id)
            .take(most)
            .collect();
        let mut place = self.place();
        let cut = wanted.len() == most;
        let last = if cut {
            wanted.last().copied()
        } else {
            rows.last().map(|(id, _)| *id)
        };
        place.after = last.unwrap_or(place.after);
        let more = cut || rows.len() == PIECE;
        if !more {
            let recent = newest.checked_sub(OVERLAP).unwrap_or(Timestamp::UNIX_EPOCH);
            place.after = place.after.min(smallest_id(recent));
        }
        (wanted, more && !cut)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ids(count: u128) -> Vec<(Uuid, bool)> {
        (1..=count)
            .map(|n| (Uuid::from_u128(n), n % 2 == 0))
            .collect()
    }

    fn at(hours: u32) -> Timestamp {
        Timestamp::UNIX_EPOCH + HOUR * hours
    }

    #[test]
    fn a_search_goes_on_where_it_was_cut_off() {
        let sweep = Sweep::default();
        assert_eq!(sweep.start(at(9)), Uuid::nil());
        let (found, more) = sweep.sift(&ids(10), 2, at(9));
        assert_eq!(found, [Uuid::from_u128(2), Uuid::from_u128(4)]);
        assert!(!more, "there are enough for once");
        assert_eq!(sweep.start(at(9)), Uuid::from_u128(4));
    }

    #[test]
    fn a_full_piece_is_followed_by_another() {
        let sweep = Sweep::default();
        sweep.start(at(9));
        let rows: Vec<_> = (1..=PIECE as u128)
            .map(|n| (Uuid::from_u128(n), false))
            .collect();
        assert_eq!(sweep.sift(&rows, 2, at(9)), (Vec::new(), true));
        assert_eq!(sweep.start(at(9)), Uuid::from_u128(PIECE as u128));
    }

    #[test]
    fn the_end_is_looked_at_again_and_everything_now_and_then() {
        let sweep = Sweep::default();
        sweep.start(at(9));
        let young = smallest_id(at(9));
        assert_eq!(sweep.sift(&[(young, false)], 2, at(9)), (Vec::new(), false));
        let again = sweep.start(at(9));
        assert!(Uuid::nil() < again && again < young);
        assert_eq!(sweep.start(at(14)), again);
        assert_eq!(sweep.start(at(15)), Uuid::nil());
    }
}
