//! One attempt: begin, renew, gate, park, finish, release.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Parking;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, Refusal, State};
use posthaste_core::port::{Begun, Budgets, Finish, Lease, Started, StoreResult, Unticketed};

use uuid::Uuid;

use super::PostgresStore;
use super::books::Books;
use super::claim::{Candidates, FactsOf, InTurn, Part, in_turn};
use super::state_row::get;
use super::writer::{Line, Wants, Writer};
use crate::ledger::{self, Ledger as _};

/// What `begin` says before the content is read.
type Opened = Result<State, Option<Refusal>>;

impl PostgresStore {
    pub(super) async fn begin_all(
        &self,
        ids: Vec<EmailId>,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<Begun>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let (worker, asked) = (worker.to_owned(), ids.clone());
        let begin = move |books: &mut Books| -> (Vec<(EmailId, Opened)>, Timestamp) {
            let event = Event::Begin {
                worker: &worker,
                lease,
            };
            let opened = asked.iter().map(|id| {
                let Ok(applied) = ledger::apply(books, *id, &event);
                let opened = match applied {
                    Some(Ok(applied)) => Ok(applied.next),
                    Some(Err(refusal)) => Err(Some(refusal)),
                    None => Err(None),
                };
                (*id, opened)
            });
            (opened.collect(), books.now())
        };
        // Nobody would hold the leases of a begin that came too late for its caller.
        let writer = Arc::clone(&self.writer);
        let unclaimed = move |(opened, _): (Vec<(EmailId, Opened)>, Timestamp)| {
            let begun = opened.iter().filter_map(|(id, opened)| {
                let token = opened.as_ref().ok()?.lease_token;
                Some(Lease { id: *id, token })
            });
            hand_back(writer, begun.collect());
        };
        let (opened, now) = self
            .writer
            .run_claimed(Wants::states(ids), begin, Some(Box::new(unclaimed)))
            .await?;
        let begun = opened
            .iter()
            .filter_map(|(id, opened)| Some((*id, opened.clone().ok()?)));
        let mut started = self
            .started_or_released(begun.collect(), now)
            .await?
            .into_iter();
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

    /// What a sender needs of emails whose attempts began. If it cannot be read, the emails are
    /// handed back: nobody would hold their leases.
    pub(super) async fn started_or_released(
        &self,
        begun: Vec<(EmailId, State)>,
        now: Timestamp,
    ) -> StoreResult<Vec<Started>> {
        if begun.is_empty() {
            return Ok(Vec::new());
        }
        let leases: Vec<Lease> = begun
            .iter()
            .map(|(id, state)| Lease {
                id: *id,
                token: state.lease_token,
            })
            .collect();
        let read = self.read_started(begun, now).await;
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
        let turn = self.senders_turns.next();
        let parts = unticketed(turn.retries_first, Some(queued_before));
        let candidates = Candidates {
            query: in_turn(&parts),
            values: &[&queued_before],
            in_turn: Some(InTurn {
                priorities: &turn.priorities,
                parts: &parts,
                floor: Some(&self.senders_floor),
            }),
            most,
            with_overdue: true,
            facts_of: FactsOf::Doubtful,
        };
        let (found, now) = self
            .claim(candidates, |books, ids| {
                let begin = |id: &EmailId| {
                    let Ok(found) =
                        ledger::begin_unticketed(books, *id, queued_before, worker, lease, budgets);
                    found.map(|found| (*id, found))
                };
                ids.iter().filter_map(begin).collect()
            })
            .await?;
        let (begun, dead) = ledger::sorted(found);
        let started = self.started_or_released(begun, now).await?;
        Ok(Unticketed { started, dead })
    }

    pub(super) async fn prepare_one(&self, lease: Lease) -> StoreResult<bool> {
        let Lease { id, token } = lease;
        // It is written as a whole, with the lease as it was renewed meanwhile.
        let wants = Wants::states(vec![id]);
        let prepare = move |books: &mut Books| {
            let Ok(prepared) = ledger::apply(books, id, &Event::Prepare { token });
            matches!(prepared, Some(Ok(_)))
        };
        self.writer.run(wants, prepare).await
    }

    pub(super) async fn renew_all(
        &self,
        leases: Vec<Lease>,
        lease: Duration,
    ) -> StoreResult<Vec<bool>> {
        let micros = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        let renewed = self.renew(RENEW_FREE, &leases, micros).await?;
        let mut kept = Vec::with_capacity(leases.len());
        for lease in leases {
            // Someone is at it, if only to finish it. Who waits for that holds no other row
            // meanwhile, so that nobody waits in a circle.
            let is_kept = renewed.contains(&(lease.id, lease.token))
                || !self.renew(RENEW, &[lease], micros).await?.is_empty();
            kept.push(is_kept);
        }
        Ok(kept)
    }

    /// Those of these leases that are held still, and now for longer.
    async fn renew(
        &self,
        sql: &str,
        leases: &[Lease],
        micros: i64,
    ) -> StoreResult<HashSet<(EmailId, i64)>> {
        let ids: Vec<Uuid> = leases.iter().map(|lease| lease.id.0).collect();
        let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
        let rows = self.pool.query(sql, &[&ids, &tokens, &micros]).await?;
        let lease = |row| Ok((EmailId(get(row, 0)?), get(row, 1)?));
        rows.iter().map(lease).collect()
    }

    pub(super) async fn pass_gate_all(
        &self,
        passages: Vec<(Lease, Arc<str>)>,
    ) -> StoreResult<Vec<bool>> {
        apply_to_each(&self.writer, Line::Gates, passages, ledger::gate).await
    }

    pub(super) async fn park_all(&self, parked: Vec<(Lease, Parking)>) -> StoreResult<Vec<bool>> {
        apply_to_each(&self.writer, Line::Ends, parked, ledger::park).await
    }

    pub(super) async fn release_all(&self, leases: Vec<Lease>) -> StoreResult<()> {
        apply_to_leases(&self.writer, leases, release)
            .await
            .map(drop)
    }

    pub(super) async fn finish_all(
        &self,
        finishes: Vec<Finish>,
    ) -> StoreResult<Vec<Result<State, Refusal>>> {
        let wants = Wants::held(
            Line::Ends,
            finishes.iter().map(|finish| finish.lease.id).collect(),
        );
        self.writer
            .run(wants, move |books| {
                finishes
                    .iter()
                    .map(|finish| {
                        let Ok(finished) = ledger::finish(books, finish);
                        finished
                    })
                    .collect()
            })
            .await
    }
}

/// Releases leases that nobody holds.
pub(super) fn hand_back(writer: Arc<Writer>, leases: Vec<Lease>) {
    tokio::spawn(async move { apply_to_leases(&writer, leases, release).await });
}

fn release(token: i64) -> Event<'static> {
    Event::Release { token }
}

/// Says of each lease whether the event was allowed.
async fn apply_to_leases<F>(writer: &Writer, leases: Vec<Lease>, event: F) -> StoreResult<Vec<bool>>
where
    F: Fn(i64) -> Event<'static> + Send + 'static,
{
    let leases = leases.into_iter().map(|held| (held, ())).collect();
    apply_to_each(writer, Line::Ends, leases, move |token, ()| event(token)).await
}

/// The same for events that are made of what comes with each lease.
async fn apply_to_each<T, F>(
    writer: &Writer,
    line: Line,
    held: Vec<(Lease, T)>,
    event: F,
) -> StoreResult<Vec<bool>>
where
    T: Send + 'static,
    F: for<'a> Fn(i64, &'a T) -> Event<'a> + Send + 'static,
{
    let wants = Wants::held(line, held.iter().map(|(lease, _)| lease.id).collect());
    writer
        .run(wants, move |books| {
            let apply = |(lease, with): &(Lease, T)| {
                let Ok(applied) = ledger::apply(books, lease.id, &event(lease.token, with));
                matches!(applied, Some(Ok(_)))
            };
            held.iter().map(apply).collect()
        })
        .await
}

/// Renews leases, each only while it is held: what [`Event::Renew`] does, without reading anything
/// first and apart from all other work. What someone else has locked is left alone.
const RENEW_FREE: &str = "UPDATE email_log l
     SET locked_until = posthaste_now() + $3::int8 * interval '1 microsecond'
     FROM (SELECT h.id FROM email_log h
           JOIN unnest($1::uuid[], $2::int8[]) AS u (id, token) ON h.id = u.id
           WHERE h.id = ANY($1) AND h.status = 'sending' AND h.lease_token = u.token
           ORDER BY h.id FOR UPDATE OF h SKIP LOCKED) AS held
     WHERE l.id = held.id RETURNING l.id, l.lease_token";

/// The same for one, whoever has locked it.
const RENEW: &str = "UPDATE email_log l
     SET locked_until = posthaste_now() + $3::int8 * interval '1 microsecond'
     FROM unnest($1::uuid[], $2::int8[]) AS u (id, token)
     WHERE l.id = u.id AND l.id = ANY($1) AND l.status = 'sending' AND l.lease_token = u.token
     RETURNING l.id, l.lease_token";

/// Emails that wait without a ticket, new ones first and retries last. `$4` is the time before which
/// a ticket is taken for lost.
const UNTICKETED: [&str; 4] = [
    // Never queued, and due by now.
    "l.status = 'pending' AND l.last_queued_at IS NULL AND l.next_attempt_at <= posthaste_now()",
    // Queued long ago. A ticket is published when an email is due or later, so whatever was
    // queued before a moment was due before it: the index range is as small as the answer.
    "l.status = 'pending' AND l.waiting_for IS NULL AND l.next_attempt_at < $4
         AND l.last_queued_at < $4",
    // The same after a failure. One that a scheduler holds has its ticket under way.
    "l.status = 'retry_queued' AND l.waiting_for IS NULL AND l.next_attempt_at < $4
         AND l.locked_until IS NULL AND (l.last_queued_at < $4 OR l.last_queued_at IS NULL)",
    // Due long ago, and no scheduler came.
    "l.status = 'failed' AND l.waiting_for IS NULL AND l.next_attempt_at <= $4
         AND l.next_attempt_at <= posthaste_now()",
];

/// In turns, so that a backlog of new emails does not hold up retries, nor the other way. Those that
/// were never queued always come before those whose tickets were lost: without a broker, looking for
/// the latter means looking at each of the former.
pub(super) fn unticketed(retries_first: bool, queued_before: Option<Timestamp>) -> [Part; 4] {
    let mut parts = std::array::from_fn(|kind| Part {
        kind,
        condition: UNTICKETED[kind],
        // All but those that were never queued.
        until: queued_before.filter(|_| kind > 0),
    });
    if retries_first {
        parts.rotate_left(2);
    }
    parts
}
