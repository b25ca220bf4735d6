//! The row of `retry_queue` as it is read and written.

use std::borrow::Cow;

use bytes::Bytes;
use posthaste_core::message::{MessageId, MessageRecord, MessageState};
use posthaste_core::port::StoreResult;
use tokio_postgres::Row;

use super::super::books::{Value, int, values};
use super::super::email_row::from_json;
use super::super::error::corrupt;
use super::super::state_row::{get, named, unsigned};

/// The columns of a state, in the order in which `state_of` reads and `state_values` writes them.
macro_rules! state_names {
    ($of:literal) => {
        concat!(
            $of,
            "status, ",
            $of,
            "retry_count, ",
            $of,
            "max_retries, ",
            $of,
            "next_retry_at, ",
            $of,
            "publish_failures, ",
            $of,
            "repeats, ",
            $of,
            "token, ",
            $of,
            "locked_until, ",
            $of,
            "last_error, ",
            $of,
            "finished_at, ",
            $of,
            "delivery"
        )
    };
}
pub(super) use state_names;

/// Arrays of states, as the first values of a statement.
macro_rules! state_arrays {
    () => {
        "$1::text[], $2::int4[], $3::int4[], $4::timestamptz[], $5::int4[], $6::int4[],
         $7::int8[], $8::timestamptz[], $9::text[], $10::timestamptz[], $11::bytea[]"
    };
}
pub(super) use state_arrays;

/// Sets all of a state but the token from `u`.
macro_rules! set_state {
    () => {
        "status = u.status, retry_count = u.retry_count, max_retries = u.max_retries,
         next_retry_at = u.next_retry_at, publish_failures = u.publish_failures,
         repeats = u.repeats, locked_until = u.locked_until, last_error = u.last_error,
         finished_at = u.finished_at, delivery = u.delivery"
    };
}
pub(super) use set_state;

/// How many columns a state has.
pub(super) const STATE_WIDTH: usize = 11;

/// The columns of a record, state first, in the order in which `record_of` reads them; the
/// payload, or nothing in its place, comes after them.
macro_rules! record_columns {
    () => {
        concat!(
            state_names!("q."),
            ", q.id, q.message_id, octet_length(q.original_payload)::int8, q.original_queue,
             coalesce(q.error_reason, ''), q.properties, q.created_at"
        )
    };
}
pub(super) use record_columns;

/// Reads a state whose columns come first.
pub(super) fn state_of(row: &Row) -> StoreResult<MessageState> {
    Ok(MessageState {
        status: named(row, 0)?,
        retry_count: unsigned(row, 1)?,
        max_retries: unsigned(row, 2)?,
        next_retry_at: get(row, 3)?,
        publish_failures: unsigned(row, 4)?,
        repeats: unsigned(row, 5)?,
        token: get(row, 6)?,
        locked_until: get(row, 7)?,
        last_error: get(row, 8)?,
        finished_at: get(row, 9)?,
        delivery: get::<&[u8]>(row, 10)?.try_into().map_err(corrupt)?,
    })
}

/// How many columns a record has, with its payload.
pub(super) const RECORD_WIDTH: usize = STATE_WIDTH + 8;

/// Reads a record.
pub(super) fn record_of(row: &Row) -> StoreResult<MessageRecord> {
    let at = STATE_WIDTH;
    Ok(MessageRecord {
        state: state_of(row)?,
        number: get(row, at)?,
        id: MessageId(get(row, at + 1)?),
        payload_bytes: u64::try_from(get::<i64>(row, at + 2)?).map_err(corrupt)?,
        original_queue: get(row, at + 3)?,
        error_reason: get(row, at + 4)?,
        properties: from_json(row, at + 5)?,
        created_at: get(row, at + 6)?,
        payload: get::<Option<&[u8]>>(row, at + 7)?
            .map(Bytes::copy_from_slice)
            .unwrap_or_default(),
    })
}

/// States as arrays.
pub(super) fn state_values<'a>(states: &[&'a MessageState]) -> Vec<Value<'a>> {
    fn column<'a, T>(states: &[&'a MessageState], of: impl Fn(&'a MessageState) -> T) -> Vec<T> {
        states.iter().map(|state| of(state)).collect()
    }
    values![
        column(states, |s| s.status.as_str()),
        column(states, |s| int(s.retry_count)),
        column(states, |s| int(s.max_retries)),
        column(states, |s| s.next_retry_at),
        column(states, |s| int(s.publish_failures)),
        column(states, |s| int(s.repeats)),
        column(states, |s| s.token),
        column(states, |s| s.locked_until),
        column(states, |s| s.last_error.as_deref().map(without_nul)),
        column(states, |s| s.finished_at),
        column(states, |s| &s.delivery[..]),
    ]
}

/// A text for people. PostgreSQL keeps none with a NUL, which is no reason to lose the rest.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
