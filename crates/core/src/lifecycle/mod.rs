//! The one function that decides every transition of an email.
//!
//! `transition(state, event, now)` gives the next state and the attempt to record, or refuses.
//! Stores execute it; they never decide. What an attempt's result means is decided before, in
//! [`crate::decision`].

mod event;
mod state;

use std::time::Duration;

use crate::Timestamp;
use crate::attempt::AttemptRecord;
use crate::decision::{Conclusion, Decision};
use crate::fingerprint::fingerprint;
use crate::status::{DeadReason, Outcome, Phase, Status};

pub use self::event::{Event, Refusal, Resolution};
pub use self::state::{LOSSES_BEFORE_ALONE, LOSSES_BEFORE_POISON, State};

/// What an event makes of an email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The next state.
    pub next: State,
    /// The attempt that ended with it.
    pub attempt: Option<AttemptRecord>,
}

impl Transition {
    /// Whether the email died with it, for someone to be told. One that is restored died before.
    #[must_use]
    pub fn is_death(&self, before: Status) -> bool {
        self.next.status == Status::Dead && !matches!(before, Status::Dead | Status::Discarded)
    }
}

/// A time far enough away, where an addition would overflow.
pub(crate) fn after(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// What `event` makes of an email in `state` at `now`, or why it changes nothing.
pub fn transition(state: &State, event: &Event<'_>, now: Timestamp) -> Result<Transition, Refusal> {
    let mut next = state.clone();
    let mut attempt = None;
    match event {
        Event::Begin { worker, lease } => {
            match state.status {
                Status::Pending if !state.is_due(now) => return Err(Refusal::NotDue),
                Status::Pending | Status::RetryQueued => {}
                Status::Failed => return Err(Refusal::NotDue),
                Status::Sending => return Err(Refusal::InProgress),
                Status::Unknown => return Err(Refusal::NotAllowed(state.status)),
                terminal => return Err(Refusal::AlreadyFinished(terminal)),
            }
            next.status = Status::Sending;
            // One that must be sent alone waits for that first; losing it meanwhile tells nothing.
            next.phase = if state.is_sent_alone() {
                Phase::Idle
            } else {
                Phase::Preparing
            };
            next.attempt_number += 1;
            next.lease_token += 1;
            next.locked_until = Some(after(now, *lease));
            next.worker = Some((*worker).to_owned());
            next.started_at = Some(now);
        }
        Event::Prepare { token } => {
            held(state, *token)?;
            if state.phase == Phase::Committing {
                return Err(Refusal::InProgress);
            }
            next.phase = Phase::Preparing;
        }
        Event::Renew { token, lease } => {
            held(state, *token)?;
            next.locked_until = Some(after(now, *lease));
        }
        Event::Gate { token } => {
            held(state, *token)?;
            if state.phase == Phase::Idle {
                return Err(Refusal::NotDue);
            }
            next.phase = Phase::Committing;
        }
        Event::Finish {
            token,
            decision,
            transport,
            budget,
        } => {
            finish(state, &mut next, *token, decision, now)?;
            attempt = Some(AttemptRecord {
                error_class: decision.error_class.clone(),
                error: decision.error.clone(),
                stage: decision.stage,
                reply: decision.reply.clone(),
                transport: Some((*transport).to_owned()),
                budget: Some(*budget),
                ..ended(state, &next, decision.outcome, now)
            });
        }
        Event::Release { token } => {
            held(state, *token)?;
            next.status = state.resting();
            next.phase = Phase::Idle;
            next.next_attempt_at = Some(now);
            next.last_queued_at = None;
            next.unlock();
            attempt = Some(ended(state, &next, Outcome::Cancelled, now));
        }
        Event::ClaimDue { lease, budget } => {
            match state.status {
                Status::Failed | Status::Pending if state.is_due(now) => {}
                Status::Failed | Status::Pending => return Err(Refusal::NotDue),
                other => return Err(Refusal::NotAllowed(other)),
            }
            if state.locked_until.is_some_and(|until| until > now) {
                return Err(Refusal::InProgress);
            }
            if state.attempt_count >= state.max_attempts.unwrap_or(*budget) {
                next.end(Status::Dead, now);
                next.dead_reason = Some(DeadReason::MaxAttemptsExceeded);
            } else {
                next.status = Status::RetryQueued;
                next.locked_until = Some(after(now, *lease));
            }
        }
        Event::Queued { token } => {
            waits_for_ticket(state, *token)?;
            next.locked_until = None;
            next.last_queued_at = Some(now);
        }
        Event::Unqueued { token } => {
            waits_for_ticket(state, *token)?;
            next.status = if state.status == Status::Pending {
                Status::Pending
            } else {
                state.resting()
            };
            next.locked_until = None;
            next.last_queued_at = None;
        }
        Event::LeaseExpired => {
            if state.locked_until.is_none_or(|until| until > now) {
                return Err(Refusal::InProgress);
            }
            if state.status == Status::RetryQueued {
                let token = state.lease_token;
                return transition(state, &Event::Unqueued { token }, now);
            }
            attempt = Some(lose(state, &mut next, now)?);
        }
        Event::Settle(conclusion) => {
            if state.status != Status::Unknown || state.next_attempt_at.is_none() {
                return Err(Refusal::NotAllowed(state.status));
            }
            match conclusion {
                Conclusion::Retry { delay, .. } => {
                    next.status = Status::Failed;
                    next.next_attempt_at = Some(after(now, *delay));
                    next.possible_duplicate = true;
                }
                _ => next.next_attempt_at = None,
            }
        }
        Event::Cancel => match state.status {
            Status::Pending | Status::Failed | Status::RetryQueued => {
                next.lease_token += 1;
                next.end(Status::Cancelled, now);
            }
            Status::Sending => return Err(Refusal::InProgress),
            Status::Unknown => return Err(Refusal::NotAllowed(state.status)),
            terminal => return Err(Refusal::AlreadyFinished(terminal)),
        },
        Event::Replay => {
            match state.status {
                Status::Dead | Status::Unknown | Status::Failed => {}
                Status::Pending | Status::RetryQueued | Status::Sending => {
                    return Err(Refusal::InProgress);
                }
                other => return Err(Refusal::NotAllowed(other)),
            }
            // Also when an operator gave the uncertain one up in between.
            next.possible_duplicate |= state.unknown_count > 0;
            next.status = Status::Pending;
            next.phase = Phase::Idle;
            next.lease_token += 1;
            next.attempt_count = 0;
            next.budget_from = state.attempt_number;
            next.lost_count = 0;
            next.unknown_count = 0;
            next.next_attempt_at = Some(now);
            next.last_queued_at = None;
            next.forget_error();
            next.dead_reason = None;
            next.finished_at = None;
            next.unlock();
        }
        Event::Resolve(resolution) => {
            if state.status != Status::Unknown {
                return Err(Refusal::NotAllowed(state.status));
            }
            match resolution {
                Resolution::Sent => {
                    next.end(Status::Sent, now);
                    next.sent_at = Some(now);
                    next.forget_error();
                }
                Resolution::Retry => return transition(state, &Event::Replay, now),
                Resolution::Dead => {
                    next.end(Status::Dead, now);
                    next.dead_reason = Some(DeadReason::Uncertain);
                }
            }
        }
        Event::ResolveInPart(reason) => {
            only_from(state, Status::Unknown)?;
            next.end(Status::Dead, now);
            next.dead_reason = Some(*reason);
        }
        Event::Discard => {
            only_from(state, Status::Dead)?;
            next.end(Status::Discarded, now);
        }
        Event::Restore => {
            only_from(state, Status::Discarded)?;
            next.end(Status::Dead, now);
        }
        Event::Expire => match state.status {
            Status::Pending | Status::Failed | Status::RetryQueued => {
                next.lease_token += 1;
                next.end(Status::Dead, now);
                next.dead_reason = Some(DeadReason::Expired);
            }
            other => return Err(Refusal::NotAllowed(other)),
        },
    }
    Ok(Transition { next, attempt })
}

fn held(state: &State, token: i64) -> Result<(), Refusal> {
    if state.status == Status::Sending && state.lease_token == token {
        Ok(())
    } else {
        Err(Refusal::StaleToken)
    }
}

/// A word about a ticket comes too late when an attempt, a cancel or a replay came in between.
fn waits_for_ticket(state: &State, token: i64) -> Result<(), Refusal> {
    if state.lease_token != token {
        return Err(Refusal::StaleToken);
    }
    match state.status {
        Status::RetryQueued | Status::Pending => Ok(()),
        Status::Sending => Err(Refusal::InProgress),
        other => Err(Refusal::NotAllowed(other)),
    }
}

fn only_from(state: &State, status: Status) -> Result<(), Refusal> {
    if state.status == status {
        Ok(())
    } else {
        Err(Refusal::NotAllowed(state.status))
    }
}

/// The worker that held it is gone. What that means depends on how far it had got.
fn lose(state: &State, next: &mut State, now: Timestamp) -> Result<AttemptRecord, Refusal> {
    Ok(match (state.status, state.phase) {
        (Status::Sending, Phase::Committing) => {
            next.status = Status::Unknown;
            next.attempt_count += u32::from(state.counts_attempt());
            next.unknown_count += 1;
            next.next_attempt_at = Some(now);
            next.last_error =
                Some("the worker was lost after the final dot may have been sent".into());
            next.error_class = Some("worker_lost".into());
            next.fingerprint = next.last_error.as_deref().map(fingerprint);
            next.unlock();
            AttemptRecord {
                error: next.last_error.clone(),
                error_class: next.error_class.clone(),
                ..ended(state, next, Outcome::Unknown, now)
            }
        }
        (Status::Sending, Phase::Idle) => {
            next.status = Status::Failed;
            next.next_attempt_at = Some(now);
            next.unlock();
            ended(state, next, Outcome::Cancelled, now)
        }
        (Status::Sending, _) => {
            next.lost_count += 1;
            next.phase = Phase::Idle;
            if next.lost_count >= LOSSES_BEFORE_POISON {
                next.end(Status::Dead, now);
                next.dead_reason = Some(DeadReason::Poison);
                next.last_error = Some("workers were lost three times while sending it".into());
                next.error_class = Some("worker_lost".into());
                next.fingerprint = Some(fingerprint("workers lost"));
            } else {
                next.status = Status::Failed;
                next.next_attempt_at = Some(now);
                next.unlock();
            }
            AttemptRecord {
                error: Some("the worker was lost before anything was sent".into()),
                error_class: Some("worker_lost".into()),
                ..ended(state, next, Outcome::Lost, now)
            }
        }
        (other, _) => return Err(Refusal::NotAllowed(other)),
    })
}

fn finish(
    state: &State,
    next: &mut State,
    token: i64,
    decision: &Decision,
    now: Timestamp,
) -> Result<(), Refusal> {
    if state.lease_token != token || state.status.is_terminal() {
        return Err(Refusal::StaleToken);
    }
    let late = state.status != Status::Sending;
    // A token that came from a replay, or from nothing yet, was never handed to a worker.
    if late && state.attempt_number == state.budget_from {
        return Err(Refusal::StaleToken);
    }
    // A late `sent` with the current token is proof. Nothing else is worth believing late.
    if late && decision.outcome != Outcome::Sent {
        return Err(Refusal::StaleToken);
    }
    let counted = u32::from(state.counts_attempt());
    if late && state.phase == Phase::Committing {
        // The attempt was counted as unknown when its worker seemed lost. It was not.
        next.attempt_count = next.attempt_count.saturating_sub(counted);
        next.unknown_count = next.unknown_count.saturating_sub(1);
    }
    if decision.outcome.is_counted() {
        next.attempt_count += counted;
        next.last_error.clone_from(&decision.error);
        next.error_class.clone_from(&decision.error_class);
        next.fingerprint.clone_from(&decision.fingerprint);
    }
    if decision.outcome == Outcome::Unknown {
        next.unknown_count += 1;
    }
    match &decision.conclusion {
        Conclusion::Sent => {
            next.end(Status::Sent, now);
            next.sent_at = Some(now);
            next.forget_error();
        }
        Conclusion::Dead(reason) => {
            next.end(Status::Dead, now);
            next.dead_reason = Some(*reason);
        }
        Conclusion::Retry {
            delay,
            possible_duplicate,
        } => {
            next.status = Status::Failed;
            next.next_attempt_at = Some(after(now, *delay));
            next.possible_duplicate |= possible_duplicate;
            if decision.outcome != Outcome::Unknown {
                next.phase = Phase::Idle;
            }
            next.unlock();
        }
        Conclusion::Hold => {
            next.status = Status::Unknown;
            next.next_attempt_at = None;
            next.unlock();
        }
    }
    Ok(())
}

/// The record of the attempt that ended with the step from `state` to `next`.
fn ended(state: &State, next: &State, outcome: Outcome, now: Timestamp) -> AttemptRecord {
    AttemptRecord {
        number: state.attempt_number,
        started_at: state.started_at.unwrap_or(now),
        finished_at: now,
        outcome,
        error_class: None,
        error: None,
        stage: None,
        reply: None,
        transport: None,
        worker: state.worker.clone(),
        budget: None,
        next_attempt_at: next.next_attempt_at,
    }
}
