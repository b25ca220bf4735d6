//! Emails that are due: taken by a scheduler, published, marked.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Budgets, Due, Lease, StoreResult};
use rusqlite::Connection;

use super::state_row::optional_time;
use super::{SqliteStore, micros};
use crate::ledger;
use crate::turn::Turn;

/// Failed emails of a priority that are due, then those that wait without a ticket. `?1` is a time,
/// `?2` how many, `?3` the priority.
pub(super) const DUE: [&str; 2] = [
    "SELECT id FROM posthaste_email_log
     WHERE status = 'failed' AND waiting_for IS NULL AND priority = ?3 AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
    "SELECT id FROM posthaste_email_log INDEXED BY posthaste_email_log_unqueued
     WHERE status = 'pending' AND last_queued_at IS NULL AND priority = ?3
       AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
];

/// Parked emails for which it became too late. `?1` is now, `?2` how many.
pub(super) const WAITED_TOO_LONG: &str = "SELECT id FROM posthaste_email_log
     WHERE waits_until <= ?1 ORDER BY waits_until LIMIT ?2";

/// When the next of them is due: the first of each priority.
pub(super) const NEXT_DUE: &str = "SELECT min(due) FROM (
         SELECT (SELECT next_attempt_at FROM posthaste_email_log
                 WHERE status = 'failed' AND waiting_for IS NULL AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1) AS due
         FROM (VALUES (0), (1), (2)) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at
                 FROM posthaste_email_log INDEXED BY posthaste_email_log_unqueued
                 WHERE status = 'pending' AND last_queued_at IS NULL AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1)
         FROM (VALUES (0), (1), (2)) AS kind
         UNION ALL
         SELECT min(waits_until) FROM posthaste_email_log WHERE waits_until IS NOT NULL)";

impl SqliteStore {
    pub(super) async fn claim_all_due(
        &self,
        most: usize,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Vec<Due>> {
        let budgets = budgets.clone();
        let turn = self.schedulers_turns.next();
        self.writer
            .run(move |flush| {
                let now = micros(flush.now());
                let mut ids = waited_too_long(flush, now, most)?;
                take_in_turn(flush, &DUE.map(|sql| (sql, now)), turn, most, &mut ids)?;
                let mut due = Vec::new();
                for id in ids {
                    due.extend(ledger::claim_due(flush, id, lease, &budgets)?);
                }
                Ok(due)
            })
            .await
    }

    pub(super) async fn mark_all_queued(
        &self,
        published: Vec<Lease>,
        refused: Vec<Lease>,
    ) -> StoreResult<()> {
        self.writer
            .run(move |flush| {
                for Lease { id, token } in published.iter().copied() {
                    ledger::apply(flush, id, &Event::Queued { token })?;
                }
                for Lease { id, token } in refused.iter().copied() {
                    ledger::apply(flush, id, &Event::Unqueued { token })?;
                }
                Ok(())
            })
            .await
    }

    pub(super) async fn next_due_at(&self) -> StoreResult<Option<Timestamp>> {
        self.readers
            .run(|connection| {
                connection
                    .prepare_cached(NEXT_DUE)?
                    .query_row([], |row| optional_time(row, 0))
            })
            .await
    }
}

/// Parked emails for which it became too late.
pub(super) fn waited_too_long(
    connection: &Connection,
    now: i64,
    most: usize,
) -> rusqlite::Result<Vec<EmailId>> {
    connection
        .prepare_cached(WAITED_TOO_LONG)?
        .query_map((now, most), |row| row.get(0).map(EmailId))?
        .collect()
}

/// Adds what the queries find at their times, one priority after the other, until there are enough.
pub(super) fn take_in_turn(
    connection: &Connection,
    queries: &[(&str, i64)],
    turn: Turn,
    most: usize,
    ids: &mut Vec<EmailId>,
) -> rusqlite::Result<()> {
    for priority in turn.priorities {
        for (sql, time) in queries {
            let left = most.saturating_sub(ids.len());
            if left == 0 {
                return Ok(());
            }
            let mut statement = connection.prepare_cached(sql)?;
            for id in statement.query_map((time, left, priority), |row| row.get(0))? {
                ids.push(EmailId(id?));
            }
        }
    }
    Ok(())
}
