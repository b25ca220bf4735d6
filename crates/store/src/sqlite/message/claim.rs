//! Messages that are due, and what became of them.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::message::{MessageRecord, MessageStatus};
use posthaste_core::port::{ClaimedMessage, Settled, StoreResult};
use rusqlite::OptionalExtension;

use super::super::state_row::optional_time;
use super::super::writer::Flush;
use super::super::{SqliteStore, micros};
use super::count::record;
use super::row::{self, record_columns, record_of};
use crate::message::{Moves, count, kept};

/// Those that are due, the most overdue first. `?1` is now, `?2` how many.
pub(in crate::sqlite) const DUE: &str = "SELECT id FROM posthaste_retry_queue q
     WHERE status = 'pending' AND next_retry_at <= ?1
       AND (locked_until IS NULL OR locked_until <= ?1)
     ORDER BY next_retry_at, id LIMIT ?2";

/// When the next is due that nobody has claimed.
pub(in crate::sqlite) const NEXT_DUE: &str = "SELECT next_retry_at FROM posthaste_retry_queue q
     WHERE status = 'pending' AND locked_until IS NULL ORDER BY next_retry_at LIMIT 1";

/// When the next claim runs out. Only what is due by now, `?1`, is claimed.
pub(in crate::sqlite) const NEXT_UNCLAIMED: &str = "SELECT min(locked_until)
     FROM posthaste_retry_queue q
     WHERE status = 'pending' AND next_retry_at <= ?1";

impl SqliteStore {
    pub(in crate::sqlite) async fn claim_due_messages(
        &self,
        most: usize,
        most_bytes: usize,
        lease: Duration,
    ) -> StoreResult<Vec<ClaimedMessage>> {
        // Most of the time there is nothing: look before disturbing the writer.
        let now = micros(posthaste_core::port::Store::now(self));
        let any = self
            .readers
            .run(move |connection| connection.prepare_cached(DUE)?.exists((now, most.min(1))));
        if !any.await? {
            return Ok(Vec::new());
        }
        self.writer
            .run(move |flush| {
                let mut claimed: Vec<ClaimedMessage> = Vec::new();
                let mut bytes = 0;
                for number in due(flush, most)? {
                    if !claimed.is_empty() && bytes >= most_bytes {
                        break;
                    }
                    let one = claim(flush, number, lease)?;
                    bytes += one.as_ref().map_or(0, |one| one.message.payload.len());
                    claimed.extend(one);
                }
                Ok(claimed)
            })
            .await
    }

    pub(in crate::sqlite) async fn settle_claims(
        &self,
        settled: Vec<Settled>,
    ) -> StoreResult<Vec<bool>> {
        self.writer
            .run(move |flush| {
                let mut moves = Moves::new();
                let answers = settled
                    .iter()
                    .map(|one| settle(flush, one, &mut moves))
                    .collect::<rusqlite::Result<_>>()?;
                record(flush, &moves)?;
                Ok(answers)
            })
            .await
    }

    pub(in crate::sqlite) async fn next_message_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let now = posthaste_core::port::Store::now(self);
        self.readers
            .run(move |connection| {
                let free = connection
                    .prepare_cached(NEXT_DUE)?
                    .query_row([], |row| optional_time(row, 0))
                    .optional()?
                    .flatten();
                if free.is_some_and(|due| due <= now) {
                    return Ok(free);
                }
                let claimed = connection
                    .prepare_cached(NEXT_UNCLAIMED)?
                    .query_row([micros(now)], |row| optional_time(row, 0))?;
                Ok(free.into_iter().chain(claimed).min())
            })
            .await
    }
}

fn due(flush: &Flush<'_>, most: usize) -> rusqlite::Result<Vec<i64>> {
    flush
        .prepare_cached(DUE)?
        .query_map((micros(flush.now()), most), |row| row.get(0))?
        .collect()
}

/// Claims one. The others must not suffer if it cannot be read; it is tried again when its claim
/// runs out.
fn claim(
    flush: &Flush<'_>,
    number: i64,
    lease: Duration,
) -> rusqlite::Result<Option<ClaimedMessage>> {
    let Some(state) = row::load_by_number(flush, number)? else {
        return Ok(None);
    };
    let is_repeat = state.locked_until.is_some();
    row::save(flush, number, &state.claimed(flush.now(), lease))?;
    match read(flush, number) {
        Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
            tracing::error!(%error, number, "a message cannot be read");
            Ok(None)
        }
        read => read.map(|message| Some(ClaimedMessage { message, is_repeat })),
    }
}

fn read(flush: &Flush<'_>, number: i64) -> rusqlite::Result<MessageRecord> {
    let columns = record_columns("q.original_payload");
    flush
        .prepare_cached(&format!(
            "SELECT {columns} FROM posthaste_retry_queue q WHERE q.id = ?1"
        ))?
        .query_row([number], record_of)
}

/// Records what became of one, if the claim was not lost.
fn settle(flush: &Flush<'_>, settled: &Settled, moves: &mut Moves) -> rusqlite::Result<bool> {
    let Settled { number, state } = settled;
    let holds = row::load_by_number(flush, *number)?.is_some_and(|known| {
        known.token == state.token
            && known.status == MessageStatus::Pending
            && known.locked_until.is_some()
    });
    if holds {
        row::save(flush, *number, &kept(state.clone()))?;
        count(moves, Some(MessageStatus::Pending), Some(state.status));
    }
    Ok(holds)
}
