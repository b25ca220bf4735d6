//! What every store does with the lifecycle's word, written once for all dialects.
//!
//! A dialect opens a transaction, implements [`Ledger`] on it, and calls these functions. They
//! read states, ask `posthaste_core::lifecycle`, and tell the dialect what to write. It is public for
//! the simulation, whose store in memory is one more dialect.

mod act;
mod claim;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Parking;
use posthaste_core::email::{EmailId, NewEmail, PolicyChoice, Recipient};
use posthaste_core::lifecycle::{Event, Refusal, State, Transition, transition};
use posthaste_core::port::{Finish, Lease, Opener, Rescued, Started};
use posthaste_core::status::{DeadReason, Phase, Priority, Status};

pub use self::act::{act, act_unrecorded};
pub use self::claim::{Found, begin_parked, begin_unticketed, claim_due, sorted};

/// Which of an email's recipients get nothing any more, and why; by their place.
pub type Suppressed = Vec<(usize, DeadReason)>;

/// What is asked of an email besides its state. None of it ever changes, except by erasing.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Whose it is.
    pub owner: String,
    /// The caller's key.
    pub message_key: String,
    /// Which emails go first.
    pub priority: Priority,
    /// Which retry policy it follows.
    pub policy: PolicyChoice,
    /// Not to be sent after.
    pub expires_at: Option<Timestamp>,
    /// Whether its content was erased.
    pub erased: bool,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
    /// Why the first recipient that was given up was given up, if one was.
    pub given_up: Option<DeadReason>,
}

impl Facts {
    /// Whether it is too late for an email in this state.
    fn is_too_late(&self, state: &State, now: Timestamp) -> bool {
        !state.ignores_expiry && self.expires_at.is_some_and(|at| at <= now)
    }
}

/// One transaction over emails.
pub trait Ledger {
    /// Why it could not be read or written.
    type Error;

    /// The time of this transaction.
    fn now(&self) -> Timestamp;

    /// The state of an email.
    fn state(&mut self, id: EmailId) -> Result<Option<State>, Self::Error>;

    /// The rest that matters of it. Where an email is to be begun that has not failed, a dialect may
    /// leave them out unless it expires.
    fn facts(&mut self, id: EmailId) -> Result<Option<Facts>, Self::Error>;

    /// Whether the attempt of this number is on record as one that spent the budget.
    fn has_spent(&mut self, id: EmailId, number: u32) -> Result<bool, Self::Error>;

    /// Writes what an event made of it: its state, the attempt that ended or is refunded, the
    /// counters, and the news if it died.
    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> Result<(), Self::Error>;

    /// Learns that an event was refused.
    fn refused(&mut self, _id: EmailId) {}

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
pub enum First {
    /// Whoever gets its ticket, which is published right after the commit.
    Ticket,
    /// Whoever finds that it is due.
    Finder,
    /// Its caller, who waits for it. That one is not counted.
    Caller,
    /// A sender that has room for it.
    Sender,
}

impl From<Opener> for First {
    fn from(opener: Opener) -> Self {
        match opener {
            Opener::Caller => Self::Caller,
            Opener::Sender => Self::Sender,
        }
    }
}

impl First {
    /// The state of an email that is accepted now.
    pub fn state(self, email: &NewEmail, now: Timestamp) -> State {
        let due = email.send_at.map_or(now, rounded_up);
        let mut state = match self {
            Self::Caller => State::accepted_inline(due, email.max_attempts),
            _ => State::accepted(due, email.max_attempts),
        };
        // If the ticket cannot be published, its publisher says so; if that one dies before it
        // can, the sender finds the email by this time being long ago.
        state.last_queued_at = (self == Self::Ticket && due <= now).then_some(now);
        state
    }
}

/// Begins the first attempt of an email that is being accepted outside of a ledger, and gives what
/// its sender needs.
pub fn begun(
    email: &NewEmail,
    first: First,
    suppressed: Suppressed,
    worker: &str,
    lease: Duration,
    now: Timestamp,
) -> Option<Started> {
    let accepted = first.state(email, now);
    let begun = transition(&accepted, &Event::Begin { worker, lease }, now);
    begun
        .ok()
        .map(|begun| started(email, begun.next, suppressed, now))
}

/// What a sender needs of an email whose first attempt began with this state.
fn started(email: &NewEmail, state: State, suppressed: Suppressed, now: Timestamp) -> Started {
    let recipients = email.envelope.recipients.iter().cloned();
    Started {
        lease: Lease {
            id: email.id,
            token: state.lease_token,
        },
        from: email.envelope.from.clone(),
        recipients: recipients.map(Recipient::waiting).collect(),
        content: email.content.clone(),
        suppressed,
        policy: email.policy.clone(),
        route: email.route.clone(),
        created_at: now,
        expires_at: email.expires_at,
        traceparent: email.traceparent.clone(),
        state,
        now,
    }
}

/// What an event made of an email that exists.
pub type Applied = Result<Transition, Refusal>;

/// Reads the state, asks the lifecycle, and writes what it says. `None`: there is no such email.
pub fn apply<L: Ledger>(
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
        Err(refusal) => {
            ledger.refused(id);
            return Ok(Err(refusal));
        }
    };
    // What is answered is what is kept.
    applied.next.next_attempt_at = applied.next.next_attempt_at.map(rounded_up);
    applied.next.waits_until = applied.next.waits_until.map(rounded_up);
    if let Some(attempt) = &mut applied.attempt {
        attempt.next_attempt_at = attempt.next_attempt_at.map(rounded_up);
    }
    ledger.write(id, state, event, &applied)?;
    recipients_follow(ledger, id, event, &applied.next)?;
    Ok(Ok(applied))
}

/// Recipients that still wait share the fate of an email that is over. The end of an attempt
/// says where each stands by itself, and so does what a provider says later.
fn recipients_follow<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    event: &Event<'_>,
    next: &State,
) -> Result<(), L::Error> {
    match (next.status, event) {
        (Status::Sent, Event::Finish { .. }) | (_, Event::Feedback { .. }) => Ok(()),
        (Status::Sent, _) | (_, Event::ResolveInPart(_)) => ledger.accept_recipients(id),
        (Status::Dead, _) => ledger.give_up_recipients(id, next.dead_reason),
        (_, Event::Replay { .. } | Event::Resolve(_)) => ledger.revive_recipients(id),
        _ => Ok(()),
    }
}

/// Records the end of an attempt.
pub fn finish<L: Ledger>(
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
        transport: transport.as_deref(),
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

/// The event of an email that is about to be sent by this transport.
pub fn gate(token: i64, transport: &Arc<str>) -> Event<'_> {
    Event::Gate { token, transport }
}

/// The event of an email that found no way out.
pub const fn park(token: i64, parking: &Parking) -> Event<'_> {
    Event::Park { token, parking }
}

/// Gives back what an attempt spent that turned out to have failed by no fault of the email's, if
/// nothing has happened to it since.
pub fn refund<L: Ledger>(ledger: &mut L, id: EmailId, number: u32) -> Result<bool, L::Error> {
    if !ledger.has_spent(id, number)? {
        return Ok(false);
    }
    let refunded = apply(ledger, id, &Event::Refund { number })?;
    Ok(matches!(refunded, Some(Ok(_))))
}

/// Releases a lease, if it has expired.
pub fn rescue<L: Ledger>(ledger: &mut L, id: EmailId) -> Result<Option<Rescued>, L::Error> {
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

/// The first whole microsecond that is not before `at`: databases keep no more, and what must
/// not be early is rounded up.
pub fn rounded_up(at: Timestamp) -> Timestamp {
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
