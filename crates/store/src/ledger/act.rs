//! What operators do to emails.

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, Refusal, Resolution};
use posthaste_core::port::{Acted, Action, Actor};
use posthaste_core::status::Status;

use super::{Ledger, apply_to};

/// Does what an operator wants, and keeps it in the audit log.
pub fn act<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    action: Action,
    actor: &Actor,
) -> Result<Acted, L::Error> {
    let acted = act_unrecorded(ledger, id, action, actor)?;
    let result = match &acted {
        Acted::Done(status) => status.as_str(),
        Acted::Unchanged(_) => "unchanged",
        Acted::Refused(..) => "refused",
        Acted::Erased => "erased",
        Acted::Expired => "expired",
        Acted::NotFound => return Ok(acted),
    };
    ledger.audit(&actor.name, action.name(), &id.to_string(), result)?;
    Ok(acted)
}

/// The same without a record of it: for one action over many emails, which has its own.
pub fn act_unrecorded<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    action: Action,
    actor: &Actor,
) -> Result<Acted, L::Error> {
    let Some(facts) = ledger.facts(id)? else {
        return Ok(Acted::NotFound);
    };
    if actor
        .owner
        .as_ref()
        .is_some_and(|only| *only != facts.owner)
    {
        return Ok(Acted::NotFound);
    }
    let Some(state) = ledger.state(id)? else {
        return Ok(Acted::NotFound);
    };
    let event = match action {
        Action::Cancel => Event::Cancel,
        Action::Retry | Action::RetryExpired => Event::Replay {
            ignores_expiry: action == Action::RetryExpired,
        },
        Action::Resolve(Resolution::Sent) => match facts.given_up {
            Some(reason) => Event::ResolveInPart(reason),
            None => Event::Resolve(Resolution::Sent),
        },
        Action::Resolve(resolution) => Event::Resolve(resolution),
        Action::Discard => Event::Discard,
        Action::Restore => Event::Restore,
        Action::Erase => return erase(ledger, id, state.status, facts.erased),
    };
    let sends = matches!(
        event,
        Event::Replay { .. } | Event::Resolve(Resolution::Retry)
    );
    if sends && facts.erased {
        return Ok(Acted::Erased);
    }
    // Whoever wanted it before although it was too late, says so again.
    let is_too_late = facts.expires_at.is_some_and(|at| at <= ledger.now());
    if sends && is_too_late && action != Action::RetryExpired {
        return Ok(Acted::Expired);
    }
    Ok(match apply_to(ledger, id, &state, &event)? {
        Ok(applied) => Acted::Done(applied.next.status),
        // Doing it twice does it once, and says so.
        Err(refusal) => match (action, state.status) {
            (Action::Retry | Action::RetryExpired, _) if refusal == Refusal::InProgress => {
                Acted::Unchanged(state.status)
            }
            (Action::Discard, Status::Discarded) | (Action::Restore, Status::Dead) => {
                Acted::Unchanged(state.status)
            }
            (_, status) => Acted::Refused(refusal, status),
        },
    })
}

/// What could still be sent is not erased.
fn erase<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    status: Status,
    erased: bool,
) -> Result<Acted, L::Error> {
    if erased {
        return Ok(Acted::Unchanged(status));
    }
    if !status.is_terminal() {
        return Ok(Acted::Refused(Refusal::NotAllowed(status), status));
    }
    ledger.erase(id)?;
    Ok(Acted::Done(status))
}
