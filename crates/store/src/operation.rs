//! What every store does in a step of an operation, written once for all dialects.
//!
//! A dialect finds the operation that is due and keeps others from it, takes the next items off its
//! list, lets [`treat`] decide about each, and keeps what [`Running::after`] says, all in one
//! transaction: whatever crashes, each email is treated once.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    BulkAction, NewOperation, Operation, OperationChange, OperationStatus,
};
use posthaste_core::port::{Acted, Actor, OperationStep};
use posthaste_core::status::Status;

use crate::ledger::{Ledger, act_unrecorded, rounded_up};

/// A paced operation takes about this many steps per second.
const STEPS_PER_SECOND: u32 = 10;

/// One of the emails that were dead when an operation was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    /// Which email.
    pub(crate) id: EmailId,
    /// Its token at that time: it has another one if it was tried since.
    pub(crate) token: i64,
}

/// An operation whose step is due.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// The operation as it is.
    pub(crate) operation: Operation,
    /// Only emails of this owner.
    pub(crate) owner: Option<String>,
    /// When the step was due.
    pub(crate) due: Timestamp,
}

/// The places on its list that a step is about.
pub(crate) type Slice = std::ops::Range<u64>;

impl Running {
    /// What the next step is about.
    pub(crate) fn slice(&self, most: usize) -> Slice {
        let most = u64::try_from(most.max(1)).unwrap_or(u64::MAX);
        let pace = self.operation.rate_per_second.map_or(most, |rate| {
            u64::from((rate / STEPS_PER_SECOND).max(1)).min(most)
        });
        let from = self.operation.done + self.operation.skipped;
        from..(from + pace).min(self.operation.total)
    }

    /// The operation after a step that treated so many, and when the next one is due. The rest of
    /// the slice was skipped.
    pub(crate) fn after(
        mut self,
        slice: &Slice,
        done: u64,
        now: Timestamp,
    ) -> (OperationStep, Timestamp) {
        let behind = slice.end.saturating_sub(slice.start);
        let next = next_step(self.operation.rate_per_second, behind, self.due, now);
        self.operation.done += done;
        self.operation.skipped += behind.saturating_sub(done);
        if self.operation.remaining() == 0 {
            self.operation.status = OperationStatus::Done;
            self.operation.finished_at = Some(now);
        }
        let step = OperationStep {
            operation: self.operation,
            treated: usize::try_from(behind).unwrap_or(usize::MAX),
        };
        (step, next)
    }
}

/// A number of emails as databases keep it.
pub(crate) fn place(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// When the next step is due. One that came a little late does not slow the operation down; what a
/// pause of the process missed is not caught up with.
fn next_step(rate: Option<u32>, treated: u64, due: Timestamp, now: Timestamp) -> Timestamp {
    let Some(rate) = rate else { return now };
    let gap = Duration::from_secs(treated) / rate.max(1);
    let late = Duration::try_from(now.duration_since(due)).unwrap_or_default();
    let from = if late < gap { due } else { now };
    from.checked_add(gap).map_or(Timestamp::MAX, rounded_up)
}

/// Acts on the items of a step, and counts those that were treated. One that is not the same death
/// any more is left as it is.
pub(crate) fn treat<L: Ledger>(
    ledger: &mut L,
    items: &[Item],
    running: &Running,
) -> Result<u64, L::Error> {
    let action = running.operation.action.of_each();
    let actor = Actor {
        name: running.operation.actor.clone(),
        owner: running.owner.clone(),
    };
    let mut done = 0;
    for item in items {
        let state = ledger.state(item.id)?;
        let is_same_death = state
            .is_some_and(|state| state.status == Status::Dead && state.lease_token == item.token);
        if is_same_death && let Acted::Done(_) = act_unrecorded(ledger, item.id, action, &actor)? {
            done += 1;
        }
    }
    Ok(done)
}

/// A new operation over so many emails.
pub(crate) fn begun(new: NewOperation, actor: &Actor, total: u64, now: Timestamp) -> Operation {
    let over = total == 0;
    Operation {
        id: new.id,
        action: new.action,
        filter: new.filter,
        rate_per_second: new.rate_per_second,
        status: if over {
            OperationStatus::Done
        } else {
            OperationStatus::Running
        },
        actor: actor.name.clone(),
        total,
        done: 0,
        skipped: 0,
        created_at: now,
        finished_at: over.then_some(now),
    }
}

/// The name of its end in the audit log.
pub(crate) const DONE: &str = "operation_done";

/// What came of an operation, for the audit log.
pub(crate) fn outcome(operation: &Operation) -> String {
    let treated = match operation.action {
        BulkAction::Retry => "retried",
        BulkAction::Discard => "discarded",
    };
    let (done, skipped) = (operation.done, operation.skipped);
    let counts = format!("{done} {treated}, {skipped} skipped");
    match operation.status {
        OperationStatus::Done => counts,
        OperationStatus::Cancelled => {
            format!("cancelled: {counts}, {} left alone", operation.remaining())
        }
        status => status.as_str().to_owned(),
    }
}

/// The operation's name in the audit log.
pub(crate) const fn audited_as(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Retry => "operation_retry",
        BulkAction::Discard => "operation_discard",
    }
}

/// A change's name in the audit log.
pub(crate) const fn change_audited_as(change: OperationChange) -> &'static str {
    match change {
        OperationChange::Pause => "operation_pause",
        OperationChange::Resume => "operation_resume",
        OperationChange::Cancel => "operation_cancel",
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::operation::{DeadFilter, OperationId};

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn running(rate: Option<u32>, total: u64) -> Running {
        let new = NewOperation {
            id: OperationId::generate(),
            action: BulkAction::Retry,
            filter: DeadFilter::default(),
            rate_per_second: rate,
        };
        let actor = Actor {
            name: "cli:root".into(),
            owner: None,
        };
        Running {
            operation: begun(new, &actor, total, at(0)),
            owner: None,
            due: at(0),
        }
    }

    #[test]
    fn a_step_is_a_tenth_of_a_second_and_at_least_one_email() {
        assert_eq!(running(Some(500), 1000).slice(500), 0..50);
        assert_eq!(running(Some(500), 30).slice(500), 0..30);
        assert_eq!(running(Some(3), 1000).slice(500), 0..1);
        assert_eq!(running(Some(10_000), 5000).slice(500), 0..500);
        assert_eq!(running(None, 1000).slice(500), 0..500);
    }

    #[test]
    fn steps_keep_the_pace_and_catch_up_with_nothing() {
        // Fifty at five hundred per second are a tenth of a second.
        assert_eq!(next_step(Some(500), 50, at(0), at(3)), at(100));
        assert_eq!(next_step(Some(500), 50, at(0), at(99)), at(100));
        assert_eq!(next_step(Some(500), 50, at(0), at(5000)), at(5100));
        assert_eq!(next_step(Some(1), 1, at(0), at(0)), at(1000));
        assert_eq!(next_step(None, 500, at(0), at(7)), at(7));
    }

    #[test]
    fn the_last_step_is_the_end() {
        let (step, _) = running(None, 10).after(&(0..10), 9, at(5));
        assert_eq!(step.operation.status, OperationStatus::Done);
        assert_eq!(step.operation.finished_at, Some(at(5)));
        let (step, _) = running(None, 11).after(&(0..10), 9, at(5));
        assert_eq!(step.operation.status, OperationStatus::Running);
        assert_eq!((step.treated, step.operation.remaining()), (10, 1));
    }

    #[test]
    fn an_end_says_what_came_of_it() {
        let (mut step, _) = running(None, 500).after(&(0..500), 480, at(5));
        assert_eq!(outcome(&step.operation), "480 retried, 20 skipped");
        step.operation.total = 510;
        step.operation.status = OperationStatus::Cancelled;
        assert_eq!(
            outcome(&step.operation),
            "cancelled: 480 retried, 20 skipped, 10 left alone"
        );
        step.operation.status = OperationStatus::Paused;
        assert_eq!(outcome(&step.operation), "paused");
    }
}
