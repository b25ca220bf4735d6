//! The rows of one transaction, in memory: what was read and locked, and what is to be written.
//!
//! Jobs decide on these without touching the database; `write_back` then writes everything.

mod statement;
mod write_back;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;

use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::{Event, State, Transition};
use posthaste_core::port::{Accepted, Started, StoreResult};
use posthaste_core::status::{DeadReason, Phase, Status};
use tokio_postgres::Row;

pub(super) use self::statement::{ERASE, HOT_WRITES, INSERT_AUDIT, of_row};
pub(super) use self::write_back::{Pipeline, Value, int, sparse, values};
use super::insert::NewEntry;
use super::state_row::{get, named, optional_name, state_of, unsigned};
use super::suppressed::SuppressionList;
use crate::ledger::{Facts, Ledger, begun};
use crate::statistics::counted_steps;

/// What was read, and what is to be written.
pub(super) struct Books {
    now: Timestamp,
    states: HashMap<EmailId, State>,
    facts: HashMap<EmailId, Facts>,
    /// What became of new emails.
    pub(super) accepted: HashMap<EmailId, Accepted>,
    opened: HashMap<EmailId, Box<Started>>,
    /// States that nobody has read: this process left them so when it began their attempts. They
    /// are written only where the rows still are as these say.
    assumed: HashMap<EmailId, Assumption>,
    /// Emails whose whole state is to be written, or only the columns that an event changes.
    changed: BTreeSet<EmailId>,
    claimed: BTreeSet<EmailId>,
    begun: BTreeSet<EmailId>,
    gated: BTreeSet<EmailId>,
    sent: BTreeSet<EmailId>,
    /// Emails whose attempts this process has begun or goes on with.
    ours: HashSet<EmailId>,
    /// Whether something was refused because of a state that nobody has read.
    pub(super) is_doubtful: bool,
    attempts: Vec<(EmailId, AttemptRecord)>,
    /// Attempts that spent the budget, as far as anyone asked.
    spent: HashSet<(EmailId, u32)>,
    /// Attempts that are to be refunded.
    refunded: Vec<(EmailId, u32)>,
    /// Who gets nothing any more, of those to whom new emails go.
    suppressed: SuppressionList,
    recipients: Vec<(EmailId, Vec<Recipient>)>,
    revived: Vec<EmailId>,
    given_up: Vec<(EmailId, Option<DeadReason>)>,
    reached: Vec<EmailId>,
    erased: Vec<EmailId>,
    removed: Vec<EmailId>,
    deaths: Vec<(EmailId, State)>,
    audit: Vec<[String; 4]>,
    moves: BTreeMap<(Option<Status>, Option<Status>), i64>,
    /// Whether a scheduler somewhere has something new to look at.
    pub(super) concerns_schedulers: bool,
}

impl Books {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            now,
            states: HashMap::new(),
            facts: HashMap::new(),
            accepted: HashMap::new(),
            opened: HashMap::new(),
            assumed: HashMap::new(),
            changed: BTreeSet::new(),
            claimed: BTreeSet::new(),
            begun: BTreeSet::new(),
            gated: BTreeSet::new(),
            sent: BTreeSet::new(),
            ours: HashSet::new(),
            is_doubtful: false,
            attempts: Vec::new(),
            spent: HashSet::new(),
            refunded: Vec::new(),
            suppressed: SuppressionList::default(),
            recipients: Vec::new(),
            revived: Vec::new(),
            given_up: Vec::new(),
            reached: Vec::new(),
            erased: Vec::new(),
            removed: Vec::new(),
            deaths: Vec::new(),
            audit: Vec::new(),
            moves: BTreeMap::new(),
            concerns_schedulers: false,
        }
    }

    /// Takes in a state that was read and locked: its columns, then the id.
    pub(super) fn read_state(&mut self, row: &Row, id_at: usize) -> StoreResult<EmailId> {
        let id = EmailId(get(row, id_at)?);
        self.states.insert(id, state_of(row, 0)?);
        Ok(id)
    }

    /// Takes in a state that is taken for granted, and is fenced by its token and phase.
    pub(super) fn assume(&mut self, id: EmailId, state: State) {
        // What ends now does not end before it began.
        self.now = self.now.max(state.started_at.unwrap_or(self.now));
        let assumption = Assumption {
            token: state.lease_token,
            phase: state.phase,
        };
        self.assumed.insert(id, assumption);
        self.states.insert(id, state);
    }

    /// When an email is due.
    pub(super) fn due(&self, id: EmailId) -> Option<Timestamp> {
        self.states.get(&id)?.next_attempt_at
    }

    /// Whether an email is `failed`.
    pub(super) fn has_failed(&self, id: EmailId) -> bool {
        let state = self.states.get(&id);
        state.is_some_and(|state| state.status == Status::Failed)
    }

    /// The emails whose states it has.
    pub(super) fn ids(&self) -> impl Iterator<Item = &EmailId> {
        self.states.keys()
    }

    /// What this transaction leaves behind of the emails that this process is sending.
    pub(super) fn into_under_way(mut self) -> impl Iterator<Item = (EmailId, State)> {
        self.ours.retain(|id| {
            let state = self.states.get(id);
            state.is_some_and(|state| state.status == Status::Sending)
        });
        let mut states = self.states;
        let state = move |id| Some((id, states.remove(&id)?));
        self.ours.into_iter().filter_map(state)
    }

    /// Takes in an email that was inserted, and counted, with its first attempt begun.
    pub(super) fn open(&mut self, entry: &NewEntry, created_at: Timestamp) {
        let NewEntry {
            email,
            first,
            begins,
        } = entry;
        let to = email.envelope.recipients.iter();
        let suppressed = self.suppressed.among(&email.owner, to);
        let started = begins
            .as_ref()
            .and_then(|(who, lease)| begun(email, *first, suppressed, who, *lease, created_at));
        if let Some(started) = started {
            self.states.insert(email.id, started.state.clone());
            self.ours.insert(email.id);
            self.opened.insert(email.id, Box::new(started));
        }
    }

    /// What the sender of an email needs that was inserted so.
    pub(super) fn opened(&mut self, id: EmailId) -> Option<Box<Started>> {
        self.opened.remove(&id)
    }

    /// Takes in facts that were read with `READ_FACTS`.
    pub(super) fn read_facts(&mut self, row: &Row) -> StoreResult<()> {
        self.facts.insert(EmailId(get(row, 0)?), facts_of(row)?);
        Ok(())
    }

    /// Takes in an attempt that was read with `READ_SPENT`.
    pub(super) fn read_spent(&mut self, row: &Row) -> StoreResult<()> {
        self.spent
            .insert((EmailId(get(row, 0)?), unsigned(row, 1)?));
        Ok(())
    }

    /// Takes in who gets nothing any more.
    pub(super) fn add_suppressed(&mut self, list: SuppressionList) {
        self.suppressed = list;
    }

    /// Counts emails that went from one state to another; `None` is outside the store.
    pub(super) fn count(&mut self, from: Option<Status>, to: Option<Status>, n: i64) {
        if from != to && n != 0 {
            *self.moves.entry((from, to)).or_default() += n;
        }
    }

    /// Whether there is anything to write.
    pub(super) fn is_clean(&self) -> bool {
        self.accepted.is_empty()
            && self.changed.is_empty()
            && self.claimed.is_empty()
            && self.begun.is_empty()
            && self.sent.is_empty()
            && self.gated.is_empty()
            && self.erased.is_empty()
            && self.audit.is_empty()
            && self.moves.is_empty()
    }
}

impl Ledger for Books {
    type Error = Infallible;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn state(&mut self, id: EmailId) -> Result<Option<State>, Infallible> {
        Ok(self.states.get(&id).cloned())
    }

    fn facts(&mut self, id: EmailId) -> Result<Option<Facts>, Infallible> {
        Ok(self.facts.get(&id).cloned())
    }

    fn has_spent(&mut self, id: EmailId, number: u32) -> Result<bool, Infallible> {
        Ok(self.spent.contains(&(id, number)))
    }

    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> Result<(), Infallible> {
        let next = &transition.next;
        match event {
            Event::ClaimDue { .. } if is_plainly_claimed(before, next) => self.claimed.insert(id),
            Event::Begin { .. } => self.begun.insert(id),
            Event::Gate { .. } => self.gated.insert(id),
            Event::Finish { .. } if is_plainly_sent(before, next) => self.sent.insert(id),
            _ => self.changed.insert(id),
        };
        if matches!(
            event,
            Event::Begin { .. } | Event::Prepare { .. } | Event::Gate { .. }
        ) {
            self.ours.insert(id);
        }
        for (from, to) in counted_steps(before.status, event, next.status) {
            self.count(Some(from), Some(to), 1);
        }
        if let Some(attempt) = &transition.attempt {
            self.attempts.push((id, attempt.clone()));
        }
        if let Event::Refund { number } = event {
            self.refunded.push((id, *number));
        }
        if transition.is_death(before.status) {
            self.deaths.push((id, next.clone()));
        }
        // One that was just refused by the broker is left for later. What is parked is its sender's
        // to look after, until it becomes too late.
        let waits = match next.status {
            Status::Failed => next.waiting_for.is_none() || next.waits_until.is_some(),
            Status::Pending => next.last_queued_at.is_none(),
            _ => false,
        };
        self.concerns_schedulers |= waits && !matches!(event, Event::Unqueued { .. });
        self.states.insert(id, next.clone());
        Ok(())
    }

    fn refused(&mut self, id: EmailId) {
        self.is_doubtful |= self.assumed.contains_key(&id);
    }

    fn save_recipients(&mut self, id: EmailId, all: &[Recipient]) -> Result<(), Infallible> {
        self.recipients.push((id, all.to_vec()));
        Ok(())
    }

    fn revive_recipients(&mut self, id: EmailId) -> Result<(), Infallible> {
        self.revived.push(id);
        Ok(())
    }

    fn give_up_recipients(
        &mut self,
        id: EmailId,
        reason: Option<DeadReason>,
    ) -> Result<(), Infallible> {
        self.given_up.push((id, reason));
        Ok(())
    }

    fn accept_recipients(&mut self, id: EmailId) -> Result<(), Infallible> {
        self.reached.push(id);
        Ok(())
    }

    fn remove(&mut self, id: EmailId, status: Status) -> Result<(), Infallible> {
        self.removed.push(id);
        self.count(Some(status), None, 1);
        Ok(())
    }

    fn erase(&mut self, id: EmailId) -> Result<(), Infallible> {
        self.erased.push(id);
        Ok(())
    }

    fn audit(
        &mut self,
        actor: &str,
        action: &str,
        subject: &str,
        result: &str,
    ) -> Result<(), Infallible> {
        self.audit
            .push([actor, action, subject, result].map(str::to_owned));
        Ok(())
    }
}

/// What must still hold of a row that was not read. While an email is `sending`, only who holds its
/// token changes anything but its lease; and whoever takes it over changes the status or the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assumption {
    pub(super) token: i64,
    pub(super) phase: Phase,
}

/// Whether being taken by a scheduler changes nothing but what `UPDATE_CLAIMED` writes.
fn is_plainly_claimed(before: &State, next: &State) -> bool {
    let plain = State {
        status: Status::RetryQueued,
        locked_until: next.locked_until,
        ..before.clone()
    };
    plain == *next
}

/// Whether the end of an attempt changes nothing but what `UPDATE_SENT` writes.
fn is_plainly_sent(before: &State, next: &State) -> bool {
    let plain = State {
        status: Status::Sent,
        phase: Phase::Idle,
        attempt_count: next.attempt_count,
        next_attempt_at: None,
        locked_until: None,
        worker: None,
        started_at: None,
        sent_at: next.sent_at,
        finished_at: next.finished_at,
        ..before.clone()
    };
    plain == *next
}

/// Reads the facts of emails.
pub(super) const READ_FACTS: &str =
    "SELECT e.id, e.owner, e.message_key, e.priority, e.policy::text, e.expires_at,
         e.erased_at IS NOT NULL,
         (SELECT r.reason FROM recipient r WHERE r.email_id = e.id AND r.status = 'dead'
          ORDER BY r.position LIMIT 1), e.traceparent
     FROM email e WHERE e.id = ANY($1)";

/// Reads which of these attempts spent the budget.
pub(super) const READ_SPENT: &str = "SELECT a.email_id, a.number
     FROM unnest($1::uuid[], $2::int4[]) AS u (id, number)
     JOIN email_attempt a ON a.email_id = u.id AND a.number = u.number
     WHERE NOT a.is_free AND a.outcome IN ('transient', 'permanent', 'unknown')";

fn facts_of(row: &Row) -> StoreResult<Facts> {
    Ok(Facts {
        owner: get(row, 1)?,
        message_key: get(row, 2)?,
        priority: named(row, 3)?,
        policy: serde_json::from_str(get(row, 4)?).map_err(super::error::corrupt)?,
        expires_at: get(row, 5)?,
        erased: get(row, 6)?,
        given_up: optional_name(row, 7)?,
        traceparent: get(row, 8)?,
    })
}
