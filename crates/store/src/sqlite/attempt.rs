//! One attempt: begin, renew, gate, park, finish, release.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Parking;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, Refusal, State};
use posthaste_core::port::{Begun, Budgets, Finish, Lease, Started, StoreResult, Unticketed};

use super::email_row::started_of;
use super::schedule::{take_in_turn, waited_too_long};
use super::{SqliteStore, micros};
use crate::ledger;
use crate::turn::Turn;

/// What `begin` says before the content is read.
type Opened = Result<State, Option<Refusal>>;

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
                let opened: rusqlite::Result<Vec<(EmailId, Opened)>> = ids
                    .iter()
                    .copied()
                    .map(|id| {
                        Ok((
                            id,
                            match ledger::apply(flush, id, &event)? {
                                Some(Ok(applied)) => Ok(applied.next),
                                Some(Err(refusal)) => Err(Some(refusal)),
                                None => Err(None),
                            },
                        ))
                    })
                    .collect();
                Ok((opened?, flush.now()))
            })
            .await?;
        let begun = opened
            .iter()
            .filter_map(|(id, opened)| Some((*id, opened.clone().ok()?)));
        let mut started = self.read_started(begun.collect(), now).await?.into_iter();
        Ok(opened
            .into_iter()
            .map(|(_, opened)| match opened {
                Ok(_) => started
                    .next()
                    .map_or(Begun::NotFound, |started| Begun::Started(Box::new(started))),
                Err(Some(refusal)) => Begun::Refused(refusal),
                Err(None) => Begun::NotFound,
            })
            .collect())
    }

    /// What a sender needs of emails whose attempts began. The content never changes, so it is
    /// read outside the writer's transaction. If it cannot be read, the emails are handed back:
    /// nobody would hold their leases.
    pub(super) async fn read_started(
        &self,
        begun: Vec<(EmailId, State)>,
        now: Timestamp,
    ) -> StoreResult<Vec<Started>> {
        let leases: Vec<Lease> = begun
            .iter()
            .map(|(id, state)| Lease {
                id: *id,
                token: state.lease_token,
            })
            .collect();
        let read = self
            .readers
            .run(move |connection| {
                begun
                    .into_iter()
                    .map(|(id, state)| started_of(connection, id, state, now))
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
        let (found, now) = self
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
                Ok((found, flush.now()))
            })
            .await?;
        let (begun, dead) = ledger::sorted(found);
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
    connection: &rusqlite::Connection,
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
