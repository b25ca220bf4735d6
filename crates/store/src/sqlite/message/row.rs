//! The row of `retry_queue` as it is read and written.

use bytes::Bytes;
use posthaste_core::message::{Failure, MessageId, MessageRecord, MessageState};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::accept::json;
use super::super::email_row::from_json;
use super::super::state_row::{named, optional_time};
use super::super::writer::Flush;
use super::super::{from_micros, micros};

/// The columns of a state, in the order in which `state_of` reads them.
const STATE_COLUMNS: &str = "q.status, q.retry_count, q.max_retries, q.next_retry_at,
     q.publish_failures, q.repeats, q.token, q.locked_until, q.last_error, q.finished_at,
     q.delivery";
/// How many columns that are.
const STATE_WIDTH: usize = 11;

/// The columns of a record, state first, in the order in which `record_of` reads them. `payload`
/// is the column of that name, or NULL.
pub(super) fn record_columns(payload: &str) -> String {
    format!(
        "{STATE_COLUMNS}, q.id, q.message_id, q.payload_bytes, q.original_queue,
         coalesce(q.error_reason, ''), q.properties, q.created_at, {payload}"
    )
}

fn state_of(row: &Row<'_>) -> rusqlite::Result<MessageState> {
    Ok(MessageState {
        status: named(row, 0)?,
        retry_count: row.get(1)?,
        max_retries: row.get(2)?,
        next_retry_at: from_micros(row.get(3)?),
        publish_failures: row.get(4)?,
        repeats: row.get(5)?,
        token: row.get(6)?,
        locked_until: optional_time(row, 7)?,
        last_error: row.get(8)?,
        finished_at: optional_time(row, 9)?,
        delivery: row.get(10)?,
    })
}

/// Reads a record.
pub(super) fn record_of(row: &Row<'_>) -> rusqlite::Result<MessageRecord> {
    let at = STATE_WIDTH;
    Ok(MessageRecord {
        state: state_of(row)?,
        number: row.get(at)?,
        id: MessageId(row.get(at + 1)?),
        payload_bytes: row.get(at + 2)?,
        original_queue: row.get(at + 3)?,
        error_reason: row.get(at + 4)?,
        properties: from_json(row, at + 5)?,
        created_at: from_micros(row.get(at + 6)?),
        payload: row
            .get::<_, Option<Vec<u8>>>(at + 7)?
            .map(Bytes::from)
            .unwrap_or_default(),
    })
}

/// The number and the state of a message.
pub(super) fn load(
    connection: &Connection,
    id: MessageId,
) -> rusqlite::Result<Option<(i64, MessageState)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {STATE_COLUMNS}, q.id FROM posthaste_retry_queue q WHERE q.message_id = ?1"
        ))?
        .query_row([id.0], |row| Ok((row.get(STATE_WIDTH)?, state_of(row)?)))
        .optional()
}

/// The state of a message with this number.
pub(super) fn load_by_number(
    connection: &Connection,
    number: i64,
) -> rusqlite::Result<Option<MessageState>> {
    connection
        .prepare_cached(&format!(
            "SELECT {STATE_COLUMNS} FROM posthaste_retry_queue q WHERE q.id = ?1"
        ))?
        .query_row([number], state_of)
        .optional()
}

/// Inserts a message that is new, and says its number.
pub(super) fn insert(flush: &Flush<'_>, failure: &Failure) -> rusqlite::Result<i64> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_retry_queue
             (message_id, original_queue, error_reason, properties,
                 created_at, status, retry_count, max_retries, next_retry_at, publish_failures,
                 repeats, token, delivery, payload_bytes, original_payload)
             VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, 0, 0, 0, 0, 0, x'', ?6, ?7)",
        )?
        .insert(params![
            failure.message_id.0,
            failure.original_queue,
            failure.error_reason,
            json(&failure.properties)?,
            micros(flush.now()),
            failure.payload.len(),
            &failure.payload[..],
        ])
}

/// Replaces the content of a message.
pub(super) fn replace(flush: &Flush<'_>, number: i64, failure: &Failure) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_retry_queue
             SET original_queue = ?2, error_reason = ?3, properties = ?4,
                 payload_bytes = ?5, original_payload = ?6
             WHERE id = ?1",
        )?
        .execute(params![
            number,
            failure.original_queue,
            failure.error_reason,
            json(&failure.properties)?,
            failure.payload.len(),
            &failure.payload[..],
        ])
        .map(drop)
}

/// Writes the state of a message.
pub(super) fn save(flush: &Flush<'_>, number: i64, state: &MessageState) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_retry_queue SET status = ?2, retry_count = ?3, max_retries = ?4,
                 next_retry_at = ?5, publish_failures = ?6, repeats = ?7, token = ?8,
                 locked_until = ?9, last_error = ?10, finished_at = ?11, delivery = ?12
             WHERE id = ?1",
        )?
        .execute(params![
            number,
            state.status.as_str(),
            state.retry_count,
            state.max_retries,
            micros(state.next_retry_at),
            state.publish_failures,
            state.repeats,
            state.token,
            state.locked_until.map(micros),
            state.last_error,
            state.finished_at.map(micros),
            &state.delivery[..],
        ])
        .map(drop)
}
