//! The one function that decides every transition of an email.
//!
//! `transition(state, event, now)` gives the next state and the attempt to record, or refuses.
//! Stores execute it; they never decide. What an attempt's result means is decided before, in
//! [`crate::decision`].

mod end;
mod event;
mod state;

use std::time::Duration;

use crate::Timestamp;
use crate::attempt::AttemptRecord;
use crate::decision::Conclusion;
use crate::fingerprint::fingerprint;
use crate::status::{DeadReason, Outcome, Phase, Status};

use self::end::{ended, finish, lose, park};
pub use self::event::{Event, Feedback, Refusal, Resolution};
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
        Event::Gate { token, transport } => {
            held(state, *token)?;
            if state.phase == Phase::Idle {
                return Err(Refusal::NotDue);
            }
            next.phase = Phase::Committing;
            next.transport = Some((*transport).to_owned());
        }
        Event::Finish {
            token,
            decision,
            transport,
            budget,
        } => {
            finish(state, &mut next, *token, decision, *transport, now)?;
            attempt = Some(AttemptRecord {
                error_class: decision.error_class.clone(),
                error: decision.error.clone(),
                stage: decision.stage,
                reply: decision.reply.clone(),
                transport: transport.map(str::to_owned),
                provider_id: decision.provider_id.clone(),
                is_free: decision.is_free,
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
        Event::Park { token, parking } => {
            held(state, *token)?;
            if state.phase == Phase::Committing {
                return Err(Refusal::InProgress);
            }
            next.status = Status::Failed;
            next.phase = Phase::Idle;
            // It was no attempt, and so it was not the one that its caller waited for.
            next.attempt_number -= 1;
            next.inline &= next.attempt_number > 0;
            park(&mut next, parking, now);
        }
        Event::ClaimDue { .. } if state.waiting_for.is_some() => return Err(Refusal::NotDue),
        Event::Unpark { .. } if state.waiting_for.is_none() => {
            return Err(Refusal::NotAllowed(state.status));
        }
        Event::ClaimDue { lease, budget } | Event::Unpark { lease, budget } => {
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
                next.leave_parking();
                next.locked_until = Some(after(now, *lease));
            }
        }
        Event::Refund { number } => {
            // Someone may have gone on with it, or it was that attempt's end. What may have sent the
            // email has its price.
            if state.status != Status::Failed
                || state.phase == Phase::Committing
                || state.possible_duplicate
                || state.attempt_number != *number
                || state.attempt_number == state.budget_from
                || state.attempt_count == 0
                || !state.counts_attempt()
            {
                return Err(Refusal::NotAllowed(state.status));
            }
            next.attempt_count -= 1;
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
        Event::Replay { ignores_expiry } => {
            match state.status {
                Status::Dead | Status::Unknown | Status::Failed => {}
                Status::Pending | Status::RetryQueued | Status::Sending => {
                    return Err(Refusal::InProgress);
                }
                other => return Err(Refusal::NotAllowed(other)),
            }
            // Also when an operator gave the uncertain one up in between.
            next.possible_duplicate |= state.unknown_count > 0 || state.bound_to.is_some();
            next.status = Status::Pending;
            next.phase = Phase::Idle;
            next.lease_token += 1;
            next.attempt_count = 0;
            next.budget_from = state.attempt_number;
            next.lost_count = 0;
            next.unknown_count = 0;
            next.next_attempt_at = Some(now);
            next.last_queued_at = None;
            next.bound_to = None;
            next.tried = None;
            next.ignores_expiry = *ignores_expiry;
            next.forget_error();
            next.dead_reason = None;
            next.sent_at = None;
            next.finished_at = None;
            next.leave_parking();
            next.unlock();
        }
        Event::Feedback { feedback, detail } => match (feedback, state.status) {
            // One on its way out again is left to whoever sends it.
            (_, Status::Sending) => return Err(Refusal::InProgress),
            (Feedback::Delivered, Status::Unknown) => {
                return transition(state, &Event::Resolve(Resolution::Sent), now);
            }
            (Feedback::Refused(reason), Status::Sent | Status::Unknown) => {
                die(&mut next, *reason, *detail, now);
            }
            // It had left after all: no further copy is needed, or would fare better.
            (feedback, Status::Failed | Status::RetryQueued) if state.bound_to.is_some() => {
                next.lease_token += 1;
                match feedback {
                    Feedback::Delivered => {
                        next.end(Status::Sent, now);
                        next.sent_at = Some(now);
                        next.forget_error();
                    }
                    Feedback::Refused(reason) => die(&mut next, *reason, *detail, now),
                }
            }
            (Feedback::Refused(reason @ DeadReason::SpamComplaint), Status::Dead)
                if state.dead_reason == Some(DeadReason::HardBounce) =>
            {
                blame(&mut next, *reason, *detail);
            }
            (_, other) => return Err(Refusal::NotAllowed(other)),
        },
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
                Resolution::Retry => {
                    let ignores_expiry = false;
                    return transition(state, &Event::Replay { ignores_expiry }, now);
                }
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

/// What a provider took has come back.
fn die(next: &mut State, reason: DeadReason, detail: Option<&str>, now: Timestamp) {
    next.end(Status::Dead, now);
    blame(next, reason, detail);
}

/// Says why an email came back, in the provider's words if there are any.
fn blame(next: &mut State, reason: DeadReason, detail: Option<&str>) {
    next.dead_reason = Some(reason);
    let mut error = format!("the provider said later: {reason}");
    if let Some(detail) = detail {
        error = format!("{error} ({detail})");
    }
    next.fingerprint = Some(fingerprint(&error));
    next.last_error = Some(error);
    next.error_class = Some("feedback".into());
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
