//! Emails that someone takes to send them, or to have them sent.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, State};
use posthaste_core::port::{Budgets, Due};
use posthaste_core::status::{DeadReason, Status};

use super::{Facts, Ledger, apply_to};

/// What became of an email that waits without a ticket.
pub enum Found {
    /// Its attempt began.
    Begun(Box<State>),
    /// It was over budget or too late, and is dead now.
    Dead(Due),
}

/// Begins an email that waits without a ticket, if it still does. A failed one passes the
/// scheduler's check first.
pub fn begin_unticketed<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    queued_before: Timestamp,
    worker: &str,
    lease: Duration,
    budgets: &Budgets,
) -> Result<Option<Found>, L::Error> {
    let Some(mut state) = ledger.state(id)? else {
        return Ok(None);
    };
    let queued_since = state.last_queued_at.is_some_and(|at| at >= queued_before);
    if (queued_since && state.status != Status::Failed) || state.locked_until.is_some() {
        return Ok(None);
    }
    let has_failed = state.status == Status::Failed;
    match ledger.facts(id)? {
        Some(facts) if has_failed || facts.is_too_late(&state, ledger.now()) => {
            match claim(ledger, id, &state, facts, lease, budgets)? {
                Some((due, _)) if due.exhausted || due.expired => {
                    return Ok(Some(Found::Dead(due)));
                }
                Some((_, claimed)) => state = claimed,
                None => return Ok(None),
            }
        }
        None if has_failed => return Ok(None),
        _ => {}
    }
    begin_claimed(ledger, id, &state, worker, lease)
}

/// Begins an email that waits for exactly these ways out, if it still does.
pub fn begin_parked<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    waiting_for: &str,
    worker: &str,
    lease: Duration,
    budgets: &Budgets,
) -> Result<Option<Found>, L::Error> {
    let (Some(state), Some(facts)) = (ledger.state(id)?, ledger.facts(id)?) else {
        return Ok(None);
    };
    if state.waiting_for.as_deref() != Some(waiting_for) {
        return Ok(None);
    }
    let unpark = |budget| Event::Unpark { lease, budget };
    match take(ledger, id, &state, facts, unpark, budgets)? {
        Some((due, _)) if due.exhausted || due.expired => Ok(Some(Found::Dead(due))),
        Some((_, taken)) => begin_claimed(ledger, id, &taken, worker, lease),
        None => Ok(None),
    }
}

fn begin_claimed<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    state: &State,
    worker: &str,
    lease: Duration,
) -> Result<Option<Found>, L::Error> {
    let begun = apply_to(ledger, id, state, &Event::Begin { worker, lease })?;
    Ok(begun
        .ok()
        .map(|applied| Found::Begun(Box::new(applied.next))))
}

/// Takes an email that is due. One that is over budget or too late is dead now.
pub fn claim_due<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    lease: Duration,
    budgets: &Budgets,
) -> Result<Option<Due>, L::Error> {
    let (Some(state), Some(facts)) = (ledger.state(id)?, ledger.facts(id)?) else {
        return Ok(None);
    };
    let claimed = claim(ledger, id, &state, facts, lease, budgets)?;
    Ok(claimed.map(|(due, _)| due))
}

fn claim<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    state: &State,
    facts: Facts,
    lease: Duration,
    budgets: &Budgets,
) -> Result<Option<(Due, State)>, L::Error> {
    let claim = |budget| Event::ClaimDue { lease, budget };
    take(ledger, id, state, facts, claim, budgets)
}

/// Takes an email by the event for its budget. One that is too late is dead now; so is a parked one
/// that may wait no longer.
fn take<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    state: &State,
    facts: Facts,
    event: impl FnOnce(u32) -> Event<'static>,
    budgets: &Budgets,
) -> Result<Option<(Due, State)>, L::Error> {
    let now = ledger.now();
    let waited_too_long = state.waits_until.is_some_and(|until| until <= now);
    let event = if waited_too_long || facts.is_too_late(state, now) {
        Event::Expire
    } else {
        event(budgets.of(&facts.policy))
    };
    let due_at = state.next_attempt_at.unwrap_or(now);
    let applied = apply_to(ledger, id, state, &event)?;
    Ok(applied.ok().map(|applied| {
        let due = Due {
            id,
            message_key: facts.message_key,
            priority: facts.priority,
            attempt_count: state.attempt_count,
            token: applied.next.lease_token,
            due_at,
            traceparent: facts.traceparent,
            exhausted: applied.next.dead_reason == Some(DeadReason::MaxAttemptsExceeded),
            expired: applied.next.dead_reason == Some(DeadReason::Expired),
        };
        (due, applied.next)
    }))
}

/// Sorts what was found without a ticket into attempts and deaths.
pub fn sorted(found: Vec<(EmailId, Found)>) -> (Vec<(EmailId, State)>, Vec<Due>) {
    let (mut begun, mut dead) = (Vec::new(), Vec::new());
    for (id, found) in found {
        match found {
            Found::Begun(state) => begun.push((id, *state)),
            Found::Dead(due) => dead.push(due),
        }
    }
    (begun, dead)
}
