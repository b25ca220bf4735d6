//! Emails that are due: taken by a scheduler, published, marked.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Budgets, Due, Lease, StoreResult};
use uuid::Uuid;

use super::PostgresStore;
use super::books::of_row;
use super::claim::{Candidates, FactsOf, InTurn, Part, in_turn};
use super::state_row::{STATE_WIDTH, get, lock_states};
use crate::ledger;

/// Failed emails that are due, then those that wait without a ticket.
pub(super) const DUE: [Part; 2] = [
    Part {
        kind: 0,
        condition: "l.status = 'failed' AND l.waiting_for IS NULL
             AND l.next_attempt_at <= posthaste_now()",
        until: None,
    },
    Part {
        kind: 1,
        condition: "l.status = 'pending' AND l.last_queued_at IS NULL
             AND l.next_attempt_at <= posthaste_now()",
        until: None,
    },
];

/// When the next of them is due: the first of each priority, from where the search for them begins
/// (`$1`). Also when it becomes too late for one that is parked.
pub(super) const NEXT_DUE: &str = "SELECT min(due) FROM (
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE status = 'failed' AND waiting_for IS NULL AND priority = kind
                   AND next_attempt_at >= ($1::timestamptz[])[kind * 2 + 1]
                 ORDER BY next_attempt_at LIMIT 1) AS due
         FROM generate_series(0, 2) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE status = 'pending' AND last_queued_at IS NULL AND priority = kind
                   AND next_attempt_at >= ($1::timestamptz[])[kind * 2 + 2]
                 ORDER BY next_attempt_at LIMIT 1)
         FROM generate_series(0, 2) AS kind
         UNION ALL
         SELECT min(waits_until) FROM email_log WHERE waits_until IS NOT NULL) AS waiting";

/// Says of emails (`$1`) that their tickets were published, unless they have gone on since: then
/// they have other tokens (`$2`). What `Event::Queued` does, without reading them first. One that
/// someone else has locked is most likely begun just now, and needs no mark; otherwise its ticket
/// counts as lost in a while.
pub(super) const MARK_QUEUED: &str = concat!(
    "UPDATE email_log SET locked_until = NULL, last_queued_at = posthaste_now()
     WHERE id = ANY(ARRAY(
         SELECT l.id FROM email_log l
         WHERE l.id = ANY($1) AND l.status IN ('retry_queued', 'pending') AND l.lease_token = ",
    of_row!("$2::int8[]"),
    " ORDER BY l.id FOR UPDATE OF l SKIP LOCKED))"
);

/// Locks and reads emails whose tickets were refused, except those that someone else has locked.
fn lock_free_states() -> String {
    let all = lock_states();
    format!("{all} SKIP LOCKED")
}

impl PostgresStore {
    pub(super) async fn claim_all_due(
        &self,
        most: usize,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Vec<Due>> {
        let priorities = self.schedulers_turns.next().priorities;
        let candidates = Candidates {
            query: in_turn(&DUE),
            values: &[],
            in_turn: Some(InTurn {
                priorities: &priorities,
                parts: &DUE,
                floor: Some(&self.schedulers_floor),
            }),
            most,
            with_overdue: true,
            facts_of: FactsOf::All,
        };
        let claimed = self.claim(candidates, |books, ids| {
            let claim = |id: &EmailId| {
                let Ok(due) = ledger::claim_due(books, *id, lease, budgets);
                due
            };
            ids.iter().filter_map(claim).collect()
        });
        claimed.await.map(|(due, _)| due)
    }

    pub(super) async fn mark_all_queued(
        &self,
        mut published: Vec<Lease>,
        refused: Vec<Lease>,
    ) -> StoreResult<()> {
        if !published.is_empty() {
            published.sort_by_key(|ticket| ticket.id);
            let ids: Vec<Uuid> = published.iter().map(|ticket| ticket.id.0).collect();
            let tokens: Vec<i64> = published.iter().map(|ticket| ticket.token).collect();
            let mark = async |client: &ClientWrapper| {
                let statement = client.prepare_cached(MARK_QUEUED).await?;
                client.execute(&statement, &[&ids, &tokens]).await
            };
            self.pool.run(mark).await?;
        }
        if refused.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = refused.iter().map(|ticket| ticket.id.0).collect();
        let marked = self.keep_books(async |client, books| {
            let statement = client.prepare_cached(&lock_free_states()).await?;
            for row in client.query(&statement, &[&ids]).await? {
                books.read_state(&row, STATE_WIDTH)?;
            }
            for Lease { id, token } in refused.iter().copied() {
                let Ok(_) = ledger::apply(books, id, &Event::Unqueued { token });
            }
            Ok(())
        });
        marked.await.map(drop)
    }

    pub(super) async fn next_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let (from, until) = self.schedulers_floor.ahead(DUE.len());
        let rows = self.pool.query(NEXT_DUE, &[&from]).await?;
        let next: Option<Timestamp> = rows.first().map_or(Ok(None), |row| get(row, 0))?;
        // What lies below is looked for when it is time for that.
        Ok(next.into_iter().chain(until).min())
    }
}
