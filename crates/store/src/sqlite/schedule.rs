//! Emails that are due: taken by a scheduler, published, marked.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Budgets, Due, Lease, StoreResult};

use super::state_row::optional_time;
use super::writer::Flush;
use super::{SqliteStore, micros};
use crate::ledger;

/// Failed emails that are due, then those that wait without a ticket.
pub(super) const DUE: [&str; 2] = [
    "SELECT id FROM posthaste_email_log WHERE status = 'failed' AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
    "SELECT id FROM posthaste_email_log INDEXED BY posthaste_email_log_unqueued
     WHERE status = 'pending' AND last_queued_at IS NULL AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2",
];

/// When the next of them is due.
pub(super) const NEXT_DUE: &str = "SELECT min(due) FROM (
         SELECT min(next_attempt_at) AS due FROM posthaste_email_log WHERE status = 'failed'
         UNION ALL
         SELECT min(next_attempt_at)
         FROM posthaste_email_log INDEXED BY posthaste_email_log_unqueued
         WHERE status = 'pending' AND last_queued_at IS NULL)";

impl SqliteStore {
    pub(super) async fn claim_all_due(
        &self,
        most: usize,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Vec<Due>> {
        let budgets = budgets.clone();
        self.writer
            .run(move |flush| {
                let mut due = Vec::new();
                for sql in DUE {
                    let left = most.saturating_sub(due.len());
                    for id in ids(flush, sql, left)? {
                        due.extend(ledger::claim_due(flush, id, lease, &budgets)?);
                    }
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

fn ids(flush: &Flush<'_>, sql: &str, most: usize) -> rusqlite::Result<Vec<EmailId>> {
    let now = micros(flush.now());
    flush
        .prepare_cached(sql)?
        .query_map((now, most), |row| row.get(0).map(EmailId))?
        .collect()
}
