//! The row of `email_log` as the lifecycle's `State`.

use posthaste_core::lifecycle::State;
use posthaste_core::port::StoreResult;
use tokio_postgres::Row;

use super::error::corrupt;

/// The columns of a state, in the order in which `state_of` reads them.
pub(super) const STATE_COLUMNS: &str =
    "l.status, l.phase, l.attempt_number, l.attempt_count, l.budget_from, l.max_attempts,
     l.next_attempt_at, l.locked_until, l.lease_token, l.worker, l.started_at, l.lost_count,
     l.unknown_count, l.possible_duplicate, l.last_queued_at, l.last_error, l.error_class,
     l.dead_reason, l.fingerprint, l.sent_at, l.finished_at, l.inline, l.waiting_for,
     l.waits_until, l.transport, l.bound_to, l.tried, l.ignores_expiry";
/// How many columns that are.
pub(super) const STATE_WIDTH: usize = 28;

/// Locks emails in the order of their ids, so that two who lock several never wait for each other in
/// a circle, and reads their states.
pub(super) fn lock_states() -> String {
    format!(
        "SELECT {STATE_COLUMNS}, l.id FROM email_log l WHERE l.id = ANY($1) ORDER BY l.id FOR UPDATE"
    )
}

/// Reads a name such as a status.
pub(super) fn named<T: std::str::FromStr>(row: &Row, at: usize) -> StoreResult<T>
where
    T::Err: std::fmt::Display,
{
    get::<&str>(row, at)?.parse().map_err(corrupt)
}

/// Reads a name that may be missing.
pub(super) fn optional_name<T: std::str::FromStr>(row: &Row, at: usize) -> StoreResult<Option<T>>
where
    T::Err: std::fmt::Display,
{
    get::<Option<&str>>(row, at)?
        .map(|text| text.parse().map_err(corrupt))
        .transpose()
}

/// Reads a number that is never negative.
pub(super) fn unsigned(row: &Row, at: usize) -> StoreResult<u32> {
    u32::try_from(get::<i32>(row, at)?).map_err(corrupt)
}

/// Reads a value.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    at: usize,
) -> StoreResult<T> {
    row.try_get(at).map_err(corrupt)
}

/// Reads a state whose columns begin at `at`.
pub(super) fn state_of(row: &Row, at: usize) -> StoreResult<State> {
    Ok(State {
        status: named(row, at)?,
        phase: named(row, at + 1)?,
        attempt_number: unsigned(row, at + 2)?,
        attempt_count: unsigned(row, at + 3)?,
        budget_from: unsigned(row, at + 4)?,
        max_attempts: get::<Option<i32>>(row, at + 5)?
            .map(u32::try_from)
            .transpose()
            .map_err(corrupt)?,
        next_attempt_at: get(row, at + 6)?,
        locked_until: get(row, at + 7)?,
        lease_token: get(row, at + 8)?,
        worker: get(row, at + 9)?,
        started_at: get(row, at + 10)?,
        lost_count: unsigned(row, at + 11)?,
        unknown_count: unsigned(row, at + 12)?,
        possible_duplicate: get(row, at + 13)?,
        last_queued_at: get(row, at + 14)?,
        last_error: get(row, at + 15)?,
        error_class: get(row, at + 16)?,
        dead_reason: optional_name(row, at + 17)?,
        fingerprint: get(row, at + 18)?,
        sent_at: get(row, at + 19)?,
        finished_at: get(row, at + 20)?,
        inline: get(row, at + 21)?,
        waiting_for: get(row, at + 22)?,
        waits_until: get(row, at + 23)?,
        transport: get(row, at + 24)?,
        bound_to: get(row, at + 25)?,
        tried: get(row, at + 26)?,
        ignores_expiry: get(row, at + 27)?,
    })
}
