//! How an attempt ends, and what is kept of it.

use super::after;
use super::event::Refusal;
use super::state::{LOSSES_BEFORE_POISON, State};
use crate::Timestamp;
use crate::attempt::AttemptRecord;
use crate::decision::{Conclusion, Decision, Parking};
use crate::fingerprint::fingerprint;
use crate::status::{DeadReason, Outcome, Phase, Status};

/// Lets an email wait for ways out that are not free.
pub(super) fn park(next: &mut State, parking: &Parking, now: Timestamp) {
    next.next_attempt_at = Some(after(now, parking.floor));
    next.last_queued_at = None;
    next.waiting_for = Some(parking.waiting_for.clone());
    next.waits_until = parking.waits_until;
    next.tried = None;
    next.unlock();
}

/// The worker that held it is gone. What that means depends on how far it had got.
pub(super) fn lose(
    state: &State,
    next: &mut State,
    now: Timestamp,
) -> Result<AttemptRecord, Refusal> {
    Ok(match (state.status, state.phase) {
        (Status::Sending, Phase::Committing) => {
            next.status = Status::Unknown;
            next.attempt_count += u32::from(state.counts_attempt());
            next.unknown_count += 1;
            next.bound_to = state.bound_to.clone().or_else(|| state.transport.clone());
            next.next_attempt_at = Some(now);
            next.last_error =
                Some("the worker was lost after the final dot may have been sent".into());
            next.error_class = Some("worker_lost".into());
            next.fingerprint = next.last_error.as_deref().map(fingerprint);
            next.unlock();
            AttemptRecord {
                error: next.last_error.clone(),
                error_class: next.error_class.clone(),
                transport: state.transport.clone(),
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

/// Its sender is done with it, or says so late.
pub(super) fn finish(
    state: &State,
    next: &mut State,
    token: i64,
    decision: &Decision,
    transport: Option<&str>,
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
        next.attempt_count += if decision.is_free { 0 } else { counted };
        next.last_error.clone_from(&decision.error);
        next.error_class.clone_from(&decision.error_class);
        next.fingerprint.clone_from(&decision.fingerprint);
    }
    if decision.outcome == Outcome::Unknown {
        next.unknown_count += 1;
    }
    if decision.binds() && next.bound_to.is_none() {
        next.bound_to = transport.map(str::to_owned);
    }
    if decision.conclusion != Conclusion::Elsewhere {
        next.tried = None;
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
        Conclusion::Park(parking) => {
            next.status = Status::Failed;
            next.phase = Phase::Idle;
            park(next, parking, now);
        }
        Conclusion::Elsewhere => {
            let tried = state.tried.iter().map(String::as_str).chain(transport);
            next.tried = Some(tried.collect::<Vec<_>>().join(","));
            next.status = Status::Failed;
            next.phase = Phase::Idle;
            next.next_attempt_at = Some(now);
            next.unlock();
        }
    }
    Ok(())
}

/// The record of the attempt that ended with the step from `state` to `next`.
pub(super) fn ended(
    state: &State,
    next: &State,
    outcome: Outcome,
    now: Timestamp,
) -> AttemptRecord {
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
        provider_id: None,
        is_free: false,
        budget: None,
        next_attempt_at: next.next_attempt_at,
    }
}
