//! Emails that wait until a way out is free again.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Budgets, Pick, StoreResult, Unticketed};

use super::attempt::Opening;
use super::writer::Flush;
use super::{SqliteStore, micros};
use crate::ledger;
use crate::turn::Turn;

/// Whether anyone waits for exactly these ways.
pub(super) const WAITING: &str =
    "SELECT EXISTS (SELECT 1 FROM posthaste_email_log WHERE waiting_for = ?1)";

/// Emails of a priority that wait for exactly these ways, and may be tried by now. `?1` is a time,
/// `?2` how many, `?3` the priority, `?4` the ways.
pub(super) const DUE: &str = "SELECT id, next_attempt_at FROM posthaste_email_log
     WHERE waiting_for = ?4 AND priority = ?3 AND next_attempt_at <= ?1
     ORDER BY next_attempt_at LIMIT ?2";

impl SqliteStore {
    pub(super) async fn begin_all_parked(
        &self,
        waiting_for: &str,
        pick: Pick,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed> {
        // Others may have been faster: look before disturbing the writer.
        let ways = waiting_for.to_owned();
        let anyone = self.readers.run(move |connection| {
            connection
                .prepare_cached(WAITING)?
                .query_row([ways], |row| row.get::<_, bool>(0))
        });
        if !anyone.await? {
            return Ok(Unticketed::default());
        }
        let turn = self.parked_turns.next();
        let (ways, worker, budgets) = (waiting_for.to_owned(), worker.to_owned(), budgets.clone());
        let (begun, dead, now) = self
            .writer
            .run(move |flush| {
                let mut found = Vec::new();
                for id in due(flush, &ways, pick, turn)? {
                    let one = ledger::begin_parked(flush, id, &ways, &worker, lease, &budgets)?;
                    found.extend(one.map(|one| (id, one)));
                }
                let (begun, dead) = ledger::sorted(found);
                Ok((Opening::all_of(flush, begun)?, dead, flush.now()))
            })
            .await?;
        let started = self.read_started(begun, now).await?;
        Ok(Unticketed { started, dead })
    }
}

fn due(flush: &Flush<'_>, ways: &str, pick: Pick, turn: Turn) -> rusqlite::Result<Vec<EmailId>> {
    let mut found: Vec<(EmailId, i64)> = Vec::new();
    let mut statement = flush.prepare_cached(DUE)?;
    for priority in turn.priorities {
        let most = match pick {
            Pick::UpTo(most) => most - found.len(),
            // Of each priority the one.
            Pick::Longest => 1,
        };
        let values = (micros(flush.now()), most, priority, ways);
        for row in statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (id, since) = row?;
            found.push((EmailId(id), since));
        }
    }
    if pick == Pick::Longest {
        found.sort_by_key(|(_, since)| *since);
        found.truncate(1);
    }
    Ok(found.into_iter().map(|(id, _)| id).collect())
}
