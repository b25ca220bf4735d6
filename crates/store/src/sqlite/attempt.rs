//! One attempt: begin, renew, gate, park, finish, release.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Parking;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, Refusal, State};
use posthaste_core::port::{Begun, Budgets, Finish, Lease, Started, StoreResult, Unticketed};

use rusqlite::Connection;

use super::email_row::started_of;
use super::memory::Fresh;
use super::schedule::{take_in_turn, waited_too_long};
use super::writer::Flush;
use super::{SqliteStore, micros, suppressed};
use crate::ledger::{self, Suppressed};
use crate::turn::Turn;

/// What `begin` says before the content is read.
type Opened = Result<Opening, Option<Refusal>>;

/// An attempt that began.
pub(super) struct Opening {
    id: EmailId,
    state: State,
    /// The email itself, if the writer still had it, and which of its recipients get nothing.
    fresh: Option<(Fresh, Suppressed)>,
}

impl Opening {
    fn of(flush: &mut Flush<'_>, id: EmailId, state: State) -> rusqlite::Result<Self> {
        let fresh = match flush.memory.take_fresh(id) {
            Some(fresh) => {
                let email = fresh.email();
                let to = email.envelope.recipients.iter();
                let suppressed = suppressed::among(flush, &email.owner, to)?;
                Some((fresh, suppressed))
            }
            None => None,
        };
        Ok(Self { id, state, fresh })
    }

    pub(super) fn all_of(
        flush: &mut Flush<'_>,
        begun: Vec<(EmailId, State)>,
    ) -> rusqlite::Result<Vec<Self>> {
        let begun = begun.into_iter();
        begun
            .map(|(id, state)| Self::of(flush, id, state))
            .collect()
    }

    fn started(self, connection: &Connection, now: Timestamp) -> rusqlite::Result<Started> {
        match self.fresh {
            Some((fresh, suppressed)) => Ok(fresh.started(self.state, suppressed, now)),
            None => started_of(connection, self.id, self.state, now),
        }
    }

    fn remembered(self, now: Timestamp) -> Option<Started> {
        let (fresh, suppressed) = self.fresh?;
        Some(fresh.started(self.state, suppressed, now))
    }
}

impl SqliteStore {
    pub(super) async fn begin_all(
        &self,
        ids: Vec<EmailId>,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<Begun>> {
        let worker = worker.to_owned();
        let (opened, now) = self
            .writer
            .run(move |flush| {
                let event = Event::Begin {
                    worker: &worker,
                    lease,
                };
                let begin = |id| {
                    Ok(match ledger::apply(flush, id, &event)? {
                        Some(Ok(applied)) => Ok(Opening::of(flush, id, applied.next)?),
                        Some(Err(refusal)) => Err(Some(refusal)),
                        None => Err(None),
                    })
                };
                let opened: rusqlite::Result<Vec<Opened>> =
                    ids.iter().copied().map(begin).collect();
                Ok((opened?, flush.now()))
            })
            .await?;
        let (mut begun, mut refused) = (Vec::new(), Vec::new());
        for opened in opened {
            match opened {
                Ok(opening) => {
                    begun.push(opening);
                    refused.push(None);
                }
                Err(Some(refusal)) => refused.push(Some(Begun::Refused(refusal))),
                Err(None) => refused.push(Some(Begun::NotFound)),
            }
        }
        let mut started = self.read_started(begun, now).await?.into_iter();
        let mut started = || match started.next() {
            Some(started) => Begun::Started(Box::new(started)),
            None => Begun::NotFound,
        };
        Ok(refused
            .into_iter()
            .map(|refused| refused.unwrap_or_else(&mut started))
            .collect())
    }

    /// What a sender needs of emails whose attempts began. The content never changes, so it is
    /// read outside the writer's transaction. If it cannot be read, the emails are handed back:
    /// nobody would hold their leases.
    pub(super) async fn read_started(
        &self,
        begun: Vec<Opening>,
        now: Timestamp,
    ) -> StoreResult<Vec<Started>> {
        if begun.iter().all(|opening| opening.fresh.is_some()) {
            let started = begun
                .into_iter()
                .filter_map(|opening| opening.remembered(now));
            return Ok(started.collect());
        }
        let lease = |opening: &Opening| Lease {
            id: opening.id,
            token: opening.state.lease_token,
        };
        let leases = begun.iter().map(lease).collect();
        let read = self
            .readers
            .run(move |connection| {
                // One snapshot: the pages that were read for one email serve the next.
                let connection = connection.unchecked_transaction()?;
                begun
                    .into_iter()
                    .map(|opening| opening.started(&connection, now))
                    .collect()
            })
            .await;
        if read.is_err() {
            self.release_all(leases).await?;
        }
        read
    }

    pub(super) async fn begin_without_ticket(
        &self,
        most: usize,
        queued_before: Timestamp,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed> {
        // Two at a time would look at the same emails.
        let one_at_a_time = self.senders_claims.lock().await;
        // Most of the time there is nothing: look before disturbing the writer.
        let before = micros(queued_before);
        let turn = self.senders_turns.next();
        let now = micros(posthaste_core::port::Store::now(self));
        let candidates = self
            .readers
            .run(move |connection| unticketed(connection, most, before, now, turn))
            .await?;
        if candidates.is_empty() {
            return Ok(Unticketed::default());
        }
        let (worker, budgets) = (worker.to_owned(), budgets.clone());
        let (begun, dead, now) = self
            .writer
            .run(move |flush| {
                let mut found = Vec::new();
                for id in candidates.iter().copied() {
                    let one = ledger::begin_unticketed(
                        flush,
                        id,
                        queued_before,
                        &worker,
                        lease,
                        &budgets,
                    )?;
                    found.extend(one.map(|one| (id, one)));
                }
                let (begun, dead) = ledger::sorted(found);
                Ok((Opening::all_of(flush, begun)?, dead, flush.now()))
            })
            .await?;
        drop(one_at_a_time);
        let started = self.read_started(begun, now).await?;
        Ok(Unticketed { started, dead })
    }

    pub(super) async fn prepare_one(&self, lease: Lease) -> StoreResult<bool> {
        let prepared = self
            .apply_to_leases(vec![lease], |token| Event::Prepare { token })
            .await?;
        Ok(prepared == [true])
    }

    pub(super) async fn renew_all(
        &self,
        leases: Vec<Lease>,
        lease: Duration,
    ) -> StoreResult<Vec<bool>> {
        self.apply_to_leases(leases, move |token| Event::Renew { token, lease })
            .await
    }

    pub(super) async fn pass_gate_all(
        &self,
        passages: Vec<(Lease, Arc<str>)>,
    ) -> StoreResult<Vec<bool>> {
        self.apply_to_each(passages, ledger::gate).await
    }

    pub(super) async fn park_all(&self, parked: Vec<(Lease, Parking)>) -> StoreResult<Vec<bool>> {
        self.apply_to_each(parked, ledger::park).await
    }

    pub(super) async fn release_all(&self, leases: Vec<Lease>) -> StoreResult<()> {
        self.apply_to_leases(leases, |token| Event::Release { token })
            .await
            .map(drop)
    }

    async fn apply_to_leases<F>(&self, leases: Vec<Lease>, event: F) -> StoreResult<Vec<bool>>
    where
        F: Fn(i64) -> Event<'static> + Send + 'static,
    {
        let leases = leases.into_iter().map(|held| (held, ())).collect();
        self.apply_to_each(leases, move |token, ()| event(token))
            .await
    }

    /// Says of each lease whether the event was allowed that is made of what comes with it.
    async fn apply_to_each<T, F>(&self, held: Vec<(Lease, T)>, event: F) -> StoreResult<Vec<bool>>
    where
        T: Send + 'static,
        F: for<'a> Fn(i64, &'a T) -> Event<'a> + Send + 'static,
    {
        self.writer
            .run(move |flush| {
                let apply = |(lease, with): &(Lease, T)| {
                    let applied = ledger::apply(flush, lease.id, &event(lease.token, with))?;
                    Ok(matches!(applied, Some(Ok(_))))
                };
                held.iter().map(apply).collect()
            })
            .await
    }

    pub(super) async fn finish_all(
        &self,
        finishes: Vec<Finish>,
    ) -> StoreResult<Vec<Result<State, Refusal>>> {
        self.writer
            .run(move |flush| {
                finishes
                    .iter()
                    .map(|finish| ledger::finish(flush, finish))
                    .collect()
            })
            .await
    }
}

/// Emails that wait without a ticket, new ones first and retries last. `?1` is a time, `?2` how many,
/// `?3` the priority.
pub(super) const UNTICKETED: [&str; 4] = [
    // Never queued, and due by now.
    "SELECT id FROM posthaste_email_log INDEXED BY posthaste_email_log_unqueued
     WHERE status = 'pending' AND last_queued_at IS NULL AND priority = ?3
       AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
    // Queued long ago. A ticket is published when an email is due or later, so whatever was
    // queued before a moment was due before it: the index range is as small as the answer.
    "SELECT id FROM posthaste_email_log
     WHERE status = 'pending' AND waiting_for IS NULL AND priority = ?3
       AND next_attempt_at < ?1 AND last_queued_at < ?1
     ORDER BY next_attempt_at LIMIT ?2",
    // The same after a failure. One that a scheduler holds has its ticket under way.
    "SELECT id FROM posthaste_email_log
     WHERE status = 'retry_queued' AND waiting_for IS NULL AND priority = ?3
       AND next_attempt_at < ?1 AND locked_until IS NULL
       AND (last_queued_at < ?1 OR last_queued_at IS NULL)
     ORDER BY next_attempt_at LIMIT ?2",
    // Due long ago, and no scheduler came.
    "SELECT id FROM posthaste_email_log
     WHERE status = 'failed' AND waiting_for IS NULL AND priority = ?3 AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
];

fn unticketed(
    connection: &Connection,
    most: usize,
    before: i64,
    now: i64,
    turn: Turn,
) -> rusqlite::Result<Vec<EmailId>> {
    let mut queries = UNTICKETED.map(|sql| (sql, before));
    queries[0].1 = now;
    // In turns, so that a backlog of new emails does not hold up retries, nor the other way.
    if turn.retries_first {
        queries.reverse();
    }
    let mut ids = waited_too_long(connection, now, most)?;
    take_in_turn(connection, &queries, turn, most, &mut ids)?;
    Ok(ids)
}
