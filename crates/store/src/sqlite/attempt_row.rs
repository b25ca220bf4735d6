//! The rows of attempts.

use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::email::EmailId;
use rusqlite::{Connection, params};

use super::kept::{Execute, Known};
use super::state_row::{named, optional_name, optional_time};
use super::writer::Flush;
use super::{from_micros, micros};

static INSERT: &str = "INSERT INTO posthaste_email_attempt
     (email_id, number, started_at, finished_at, outcome, error_class, error, reply, transport,
         worker, budget, next_attempt_at, stage, provider_id, is_free)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
     ON CONFLICT DO UPDATE SET finished_at = excluded.finished_at, outcome = excluded.outcome,
         error_class = excluded.error_class, error = excluded.error, reply = excluded.reply,
         transport = excluded.transport, budget = excluded.budget,
         next_attempt_at = excluded.next_attempt_at, stage = excluded.stage,
         provider_id = excluded.provider_id, is_free = excluded.is_free";

/// Records an attempt. The same number again is late proof: it replaces what was assumed.
pub(super) fn insert(
    writer: &mut impl Execute,
    id: EmailId,
    attempt: &AttemptRecord,
) -> rusqlite::Result<()> {
    writer.carry_out(
        Known::Text(INSERT),
        params![
            id.0.as_bytes().as_slice(),
            attempt.number,
            micros(attempt.started_at),
            micros(attempt.finished_at),
            attempt.outcome.as_str(),
            attempt.error_class,
            attempt.error,
            attempt.reply,
            attempt.transport,
            attempt.worker,
            attempt.budget,
            attempt.next_attempt_at.map(micros),
            attempt.stage.map(Stage::as_str),
            attempt.provider_id,
            attempt.is_free,
        ],
    )?;
    Ok(())
}

/// The attempt turned out to have failed by no fault of the email's.
pub(super) fn set_free(flush: &Flush<'_>, id: EmailId, number: u32) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_email_attempt SET is_free = 1 WHERE email_id = ?1 AND number = ?2",
        )?
        .execute((id.0, number))
        .map(drop)
}

/// Whether an attempt is on record as one that spent the budget.
pub(super) fn has_spent(
    connection: &Connection,
    id: EmailId,
    number: u32,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM posthaste_email_attempt
             WHERE email_id = ?1 AND number = ?2 AND NOT is_free
               AND outcome IN ('transient', 'permanent', 'unknown')",
        )?
        .exists((id.0, number))
}

/// Every attempt of an email in order.
pub(super) fn all_of(connection: &Connection, id: EmailId) -> rusqlite::Result<Vec<AttemptRecord>> {
    connection
        .prepare_cached(
            "SELECT number, started_at, finished_at, outcome, error_class, error, reply, transport,
                 worker, budget, next_attempt_at, stage, provider_id, is_free
             FROM posthaste_email_attempt WHERE email_id = ?1 ORDER BY number",
        )?
        .query_map([id.0], |row| {
            Ok(AttemptRecord {
                number: row.get(0)?,
                started_at: from_micros(row.get(1)?),
                finished_at: from_micros(row.get(2)?),
                outcome: named(row, 3)?,
                error_class: row.get(4)?,
                error: row.get(5)?,
                reply: row.get(6)?,
                transport: row.get(7)?,
                worker: row.get(8)?,
                budget: row.get(9)?,
                next_attempt_at: optional_time(row, 10)?,
                stage: optional_name(row, 11)?,
                provider_id: row.get(12)?,
                is_free: row.get(13)?,
            })
        })?
        .collect()
}
