//! What every store does with the lifecycle's word, written once for all dialects.
//!
//! A dialect opens a transaction, implements [`Ledger`] on it, and calls these functions. They
//! read states, ask `posthaste_core::lifecycle`, and tell the dialect what to write.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail, PolicyChoice, Recipient};
use posthaste_core::lifecycle::{Event, Refusal, Resolution, State, Transition, transition};
use posthaste_core::port::{Acted, Action, Actor, Budgets, Due, Finish, Lease, Rescued, Started};
use posthaste_core::status::{DeadReason, Phase, Priority, Status};

/// What is asked of an email besides its state. None of it ever changes, except by erasing.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) owner: String,
    pub(crate) message_key: String,
    pub(crate) priority: Priority,
    pub(crate) policy: PolicyChoice,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) erased: bool,
    pub(crate) traceparent: Option<String>,
    /// Why the first recipient that was given up was given up, if one was.
    pub(crate) given_up: Option<DeadReason>,
}

/// One transaction over emails.
pub(crate) trait Ledger {
    /// Why it could not be read or written.
    type Error;

    /// The time of this transaction.
    fn now(&self) -> Timestamp;

    /// The state of an email.
    fn state(&mut self, id: EmailId) -> Result<Option<State>, Self::Error>;

    /// The rest that matters of it.
    fn facts(&mut self, id: EmailId) -> Result<Option<Facts>, Self::Error>;

    /// Writes what an event made of it: its state, the attempt that ended, the counters, and the
    /// news if it died.
    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> Result<(), Self::Error>;

    /// Writes where each recipient stands.
    fn save_recipients(&mut self, id: EmailId, all: &[Recipient]) -> Result<(), Self::Error>;

    /// Those that were given up wait again: for a replay. If nobody had accepted it, all stand
    /// the same again, and need no rows.
    fn revive_recipients(&mut self, id: EmailId) -> Result<(), Self::Error>;

    /// All that still wait are given up, because the email is.
    fn give_up_recipients(
        &mut self,
        id: EmailId,
        reason: Option<DeadReason>,
    ) -> Result<(), Self::Error>;

    /// All that still wait are accepted: for an operator who knows that it arrived.
    fn accept_recipients(&mut self, id: EmailId) -> Result<(), Self::Error>;

    /// Removes an email that is over, and all that is about it.
    fn remove(&mut self, id: EmailId, status: Status) -> Result<(), Self::Error>;

    /// Removes body and addresses.
    fn erase(&mut self, id: EmailId) -> Result<(), Self::Error>;

    /// Writes an audit entry.
    fn audit(
        &mut self,
        actor: &str,
        action: &str,
        subject: &str,
        result: &str,
    ) -> Result<(), Self::Error>;
}

/// Who makes the first attempt of a new email.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// Whoever gets its ticket, which is published right after the commit.
    Ticket,
    /// Whoever finds that it is due.
    Finder,
    /// Its caller, who waits for it. That one is not counted.
    Caller,
}

impl First {
    /// The state of an email that is accepted now.
    pub(crate) fn state(self, email: &NewEmail, now: Timestamp) -> State {
        let due = email.send_at.map_or(now, rounded_up);
        let mut state = match self {
            Self::Caller => State::accepted_inline(due, email.max_attempts),
            Self::Ticket | Self::Finder => State::accepted(due, email.max_attempts),
        };
        // If the ticket cannot be published, its publisher says so; if that one dies before it
        // can, the sender finds the email by this time being long ago.
        state.last_queued_at = (self == Self::Ticket && due <= now).then_some(now);
        state
    }
}

/// Begins the first attempt of an email that is being accepted outside of a ledger, and gives what
/// its sender needs.
pub(crate) fn begun(
    email: &NewEmail,
    worker: &str,
    lease: Duration,
    now: Timestamp,
) -> Option<Started> {
    let accepted = First::Caller.state(email, now);
    let begun = transition(&accepted, &Event::Begin { worker, lease }, now);
    begun.ok().map(|begun| started(email, begun.next, now))
}

/// Begins the first attempt of an email that was accepted in this transaction.
pub(crate) fn begin_accepted<L: Ledger>(
    ledger: &mut L,
    email: &NewEmail,
    worker: &str,
    lease: Duration,
) -> Result<Option<Started>, L::Error> {
    let now = ledger.now();
    let begun = apply(ledger, email.id, &Event::Begin { worker, lease })?;
    let begun = begun.and_then(Result::ok);
    Ok(begun.map(|applied| started(email, applied.next, now)))
}

/// What a sender needs of an email whose first attempt began with this state.
fn started(email: &NewEmail, state: State, now: Timestamp) -> Started {
    let recipients = email.envelope.recipients.iter().cloned();
    Started {
        lease: Lease {
            id: email.id,
            token: state.lease_token,
        },
        from: email.envelope.from.clone(),
        recipients: recipients.map(Recipient::waiting).collect(),
        content: email.content.clone(),
        policy: email.policy.clone(),
        created_at: now,
        expires_at: email.expires_at,
        traceparent: email.traceparent.clone(),
        state,
        now,
    }
}

/// What an event made of an email that exists.
pub(crate) type Applied = Result<Transition, Refusal>;

/// Reads the state, asks the lifecycle, and writes what it says. `None`: there is no such email.
pub(crate) fn apply<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    event: &Event<'_>,
) -> Result<Option<Applied>, L::Error> {
    let Some(state) = ledger.state(id)? else {
        return Ok(None);
    };
    apply_to(ledger, id, &state, event).map(Some)
}

/// Asks the lifecycle about a state that was just read, and writes what it says.
fn apply_to<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    state: &State,
    event: &Event<'_>,
) -> Result<Applied, L::Error> {
    let mut applied = match transition(state, event, ledger.now()) {
        Ok(applied) => applied,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // What is answered is what is kept.
    applied.next.next_attempt_at = applied.next.next_attempt_at.map(rounded_up);
    if let Some(attempt) = &mut applied.attempt {
        attempt.next_attempt_at = attempt.next_attempt_at.map(rounded_up);
    }
    ledger.write(id, state, event, &applied)?;
    recipients_follow(ledger, id, event, &applied.next)?;
    Ok(Ok(applied))
}

/// Recipients that still wait share the fate of an email that is over. The end of an attempt
/// says where each stands by itself.
fn recipients_follow<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    event: &Event<'_>,
    next: &State,
) -> Result<(), L::Error> {
    match (next.status, event) {
        (Status::Sent, Event::Finish { .. }) => Ok(()),
        (Status::Sent, _) | (_, Event::ResolveInPart(_)) => ledger.accept_recipients(id),
        (Status::Dead, _) => ledger.give_up_recipients(id, next.dead_reason),
        (_, Event::Replay | Event::Resolve(_)) => ledger.revive_recipients(id),
        _ => Ok(()),
    }
}

/// Records the end of an attempt.
pub(crate) fn finish<L: Ledger>(
    ledger: &mut L,
    finish: &Finish,
) -> Result<Result<State, Refusal>, L::Error> {
    let Finish {
        lease,
        decision,
        transport,
        budget,
        removes_sent,
    } = finish;
    let event = Event::Finish {
        token: lease.token,
        decision,
        transport,
        budget: *budget,
    };
    // A row that is gone was pruned: whoever held it is long stale.
    let Some(applied) = apply(ledger, lease.id, &event)? else {
        return Ok(Err(Refusal::StaleToken));
    };
    if applied.is_ok() && !decision.recipients.is_empty() {
        ledger.save_recipients(lease.id, &decision.recipients)?;
    }
    let next = applied.map(|applied| applied.next);
    if let Ok(Status::Sent) = next.as_ref().map(|next| next.status)
        && *removes_sent
    {
        ledger.remove(lease.id, Status::Sent)?;
    }
    Ok(next)
}

/// What became of an email that waits without a ticket.
pub(crate) enum Found {
    /// Its attempt began.
    Begun(Box<State>),
    /// It was over budget or too late, and is dead now.
    Dead(Due),
}

/// Begins an email that waits without a ticket, if it still does. A failed one passes the
/// scheduler's check first.
pub(crate) fn begin_unticketed<L: Ledger>(
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
    let Some(facts) = ledger.facts(id)? else {
        return Ok(None);
    };
    let too_late = facts.expires_at.is_some_and(|at| at <= ledger.now());
    if state.status == Status::Failed || too_late {
        match claim(ledger, id, &state, facts, lease, budgets)? {
            Some((due, _)) if due.exhausted || due.expired => return Ok(Some(Found::Dead(due))),
            Some((_, claimed)) => state = claimed,
            None => return Ok(None),
        }
    }
    let begun = apply_to(ledger, id, &state, &Event::Begin { worker, lease })?;
    Ok(begun
        .ok()
        .map(|applied| Found::Begun(Box::new(applied.next))))
}

/// Takes an email that is due. One that is over budget or too late is dead now.
pub(crate) fn claim_due<L: Ledger>(
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
    let event = if facts.expires_at.is_some_and(|at| at <= ledger.now()) {
        Event::Expire
    } else {
        Event::ClaimDue {
            lease,
            budget: budgets.of(&facts.policy),
        }
    };
    let due_at = state.next_attempt_at.unwrap_or_else(|| ledger.now());
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
pub(crate) fn sorted(found: Vec<(EmailId, Found)>) -> (Vec<(EmailId, State)>, Vec<Due>) {
    let (mut begun, mut dead) = (Vec::new(), Vec::new());
    for (id, found) in found {
        match found {
            Found::Begun(state) => begun.push((id, *state)),
            Found::Dead(due) => dead.push(due),
        }
    }
    (begun, dead)
}

/// Releases a lease, if it has expired.
pub(crate) fn rescue<L: Ledger>(ledger: &mut L, id: EmailId) -> Result<Option<Rescued>, L::Error> {
    let Some(state) = ledger.state(id)? else {
        return Ok(None);
    };
    let applied = apply_to(ledger, id, &state, &Event::LeaseExpired)?;
    Ok(applied.ok().map(|applied| Rescued {
        id,
        phase: if state.status == Status::Sending {
            state.phase
        } else {
            Phase::Idle
        },
        state: applied.next,
    }))
}

/// Does what an operator wants, and keeps it in the audit log.
pub(crate) fn act<L: Ledger>(
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
pub(crate) fn act_unrecorded<L: Ledger>(
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
        Action::Retry => Event::Replay,
        Action::Resolve(Resolution::Sent) => match facts.given_up {
            Some(reason) => Event::ResolveInPart(reason),
            None => Event::Resolve(Resolution::Sent),
        },
        Action::Resolve(resolution) => Event::Resolve(resolution),
        Action::Discard => Event::Discard,
        Action::Restore => Event::Restore,
        Action::Erase => return erase(ledger, id, state.status, facts.erased),
    };
    let sends = matches!(event, Event::Replay | Event::Resolve(Resolution::Retry));
    if sends && facts.erased {
        return Ok(Acted::Erased);
    }
    if sends && facts.expires_at.is_some_and(|at| at <= ledger.now()) {
        return Ok(Acted::Expired);
    }
    Ok(match apply_to(ledger, id, &state, &event)? {
        Ok(applied) => Acted::Done(applied.next.status),
        // Doing it twice does it once, and says so.
        Err(refusal) => match (action, state.status) {
            (Action::Retry, _) if refusal == Refusal::InProgress => Acted::Unchanged(state.status),
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

/// The first whole microsecond that is not before `at`: databases keep no more, and what must
/// not be early is rounded up.
pub(crate) fn rounded_up(at: Timestamp) -> Timestamp {
    let whole = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(Timestamp::MAX);
    if whole >= at {
        return whole;
    }
    whole
        .checked_add(Duration::from_micros(1))
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_early_is_rounded_up() {
        let at = |nanos: i128| Timestamp::from_nanosecond(nanos).unwrap();
        assert_eq!(rounded_up(at(5_000)), at(5_000));
        assert_eq!(rounded_up(at(5_001)), at(6_000));
        assert_eq!(rounded_up(at(5_999)), at(6_000));
        assert_eq!(rounded_up(at(-5_001)), at(-5_000));
        assert!(rounded_up(Timestamp::MAX) <= Timestamp::MAX);
    }
}
