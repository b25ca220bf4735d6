//! The row of `email_log` as the lifecycle's `State`, and every way it is written.

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::{Event, State, Transition};
use posthaste_core::status::{DeadReason, Priority, Status};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::email_row::from_json;
use super::kept::{Execute, Known};
use super::writer::Flush;
use super::{act, alert, attempt_row, corrupt, event, from_micros, micros, prune, recipient_row};
use crate::ledger::{Facts, Ledger};
use crate::statistics::counted_steps;
use crate::turn::place_of;

/// The columns of a state, in the order in which `state_of` reads them.
pub(super) const STATE_COLUMNS: &str =
    "l.status, l.phase, l.attempt_number, l.attempt_count, l.budget_from, l.max_attempts,
     l.next_attempt_at, l.locked_until, l.lease_token, l.worker, l.started_at, l.lost_count,
     l.unknown_count, l.possible_duplicate, l.last_queued_at, l.last_error, l.error_class,
     l.dead_reason, l.fingerprint, l.sent_at, l.finished_at, l.inline, l.waiting_for,
     l.waits_until, l.transport, l.bound_to, l.tried, l.ignores_expiry";
/// How many columns that are.
pub(super) const STATE_WIDTH: usize = 28;

/// Reads a name such as a status.
pub(super) fn named<T: std::str::FromStr>(row: &Row<'_>, at: usize) -> rusqlite::Result<T>
where
    T::Err: std::fmt::Display,
{
    row.get_ref(at)?.as_str()?.parse().map_err(corrupt)
}

/// Reads a name that may be missing.
pub(super) fn optional_name<T: std::str::FromStr>(
    row: &Row<'_>,
    at: usize,
) -> rusqlite::Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    row.get_ref(at)?
        .as_str_or_null()?
        .map(|text| text.parse().map_err(corrupt))
        .transpose()
}

/// Reads a time that may be missing.
pub(super) fn optional_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(from_micros))
}

/// Reads a state whose columns begin at `at`.
pub(super) fn state_of(row: &Row<'_>, at: usize) -> rusqlite::Result<State> {
    Ok(State {
        status: named(row, at)?,
        phase: named(row, at + 1)?,
        attempt_number: row.get(at + 2)?,
        attempt_count: row.get(at + 3)?,
        budget_from: row.get(at + 4)?,
        max_attempts: row.get(at + 5)?,
        next_attempt_at: optional_time(row, at + 6)?,
        locked_until: optional_time(row, at + 7)?,
        lease_token: row.get(at + 8)?,
        worker: row.get(at + 9)?,
        started_at: optional_time(row, at + 10)?,
        lost_count: row.get(at + 11)?,
        unknown_count: row.get(at + 12)?,
        possible_duplicate: row.get(at + 13)?,
        last_queued_at: optional_time(row, at + 14)?,
        last_error: row.get(at + 15)?,
        error_class: row.get(at + 16)?,
        dead_reason: optional_name(row, at + 17)?,
        fingerprint: row.get(at + 18)?,
        sent_at: optional_time(row, at + 19)?,
        finished_at: optional_time(row, at + 20)?,
        inline: row.get(at + 21)?,
        waiting_for: row.get(at + 22)?,
        waits_until: optional_time(row, at + 23)?,
        transport: row.get(at + 24)?,
        bound_to: row.get(at + 25)?,
        tried: row.get(at + 26)?,
        ignores_expiry: row.get(at + 27)?,
    })
}

/// The state of an email.
pub(super) fn load(connection: &Connection, id: EmailId) -> rusqlite::Result<Option<State>> {
    connection
        .prepare_cached(&format!(
            "SELECT {STATE_COLUMNS} FROM posthaste_email_log l WHERE l.id = ?1"
        ))?
        .query_row([id.0], |row| state_of(row, 0))
        .optional()
}

static INSERT: &str = "INSERT INTO posthaste_email_log
     (id, status, phase, attempt_number, attempt_count, budget_from, max_attempts,
         next_attempt_at, locked_until, lease_token, worker, started_at, lost_count, unknown_count,
         possible_duplicate, last_queued_at, inline, priority)
     VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, 0, ?11, ?12, ?13)";

/// Inserts the state of a new email, whose first attempt may have begun.
pub(super) fn insert(
    writer: &mut impl Execute,
    id: EmailId,
    priority: Priority,
    state: &State,
) -> rusqlite::Result<()> {
    writer.carry_out(
        Known::Text(INSERT),
        params![
            id.0.as_bytes().as_slice(),
            state.status.as_str(),
            state.phase.as_str(),
            state.attempt_number,
            state.max_attempts,
            state.next_attempt_at.map(micros),
            state.locked_until.map(micros),
            state.lease_token,
            state.worker,
            state.started_at.map(micros),
            state.last_queued_at.map(micros),
            state.inline,
            place_of(priority),
        ],
    )?;
    Ok(())
}

impl Ledger for Flush<'_> {
    type Error = rusqlite::Error;

    fn now(&self) -> Timestamp {
        Flush::now(self)
    }

    fn state(&mut self, id: EmailId) -> rusqlite::Result<Option<State>> {
        match self.memory.take_state(id) {
            Some(state) => Ok(Some(state)),
            None => load(self, id),
        }
    }

    fn facts(&mut self, id: EmailId) -> rusqlite::Result<Option<Facts>> {
        self.prepare_cached(
            "SELECT owner, message_key, priority, policy, expires_at, erased_at IS NOT NULL,
                 (SELECT reason FROM posthaste_recipient
                  WHERE email_id = posthaste_email.id AND status = 'dead'
                  ORDER BY position LIMIT 1), traceparent
             FROM posthaste_email WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            Ok(Facts {
                owner: row.get(0)?,
                message_key: row.get(1)?,
                priority: named(row, 2)?,
                policy: from_json(row, 3)?,
                expires_at: optional_time(row, 4)?,
                erased: row.get(5)?,
                given_up: optional_name(row, 6)?,
                traceparent: row.get(7)?,
            })
        })
        .optional()
    }

    fn has_spent(&mut self, id: EmailId, number: u32) -> rusqlite::Result<bool> {
        attempt_row::has_spent(self, id, number)
    }

    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> rusqlite::Result<()> {
        let next = &transition.next;
        update(self, id, before, next)?;
        for (from, to) in counted_steps(before.status, event, next.status) {
            self.count(Some(from), Some(to), 1);
        }
        self.memory.written(id, before.status, next);
        if let Some(attempt) = &transition.attempt {
            attempt_row::insert(self, id, attempt)?;
        }
        if let Event::Refund { number } = event {
            attempt_row::set_free(self, id, *number)?;
        }
        if transition.is_death(before.status) {
            event::insert_death(self, id, next)?;
            alert::insert_death(self, id, next)?;
        }
        Ok(())
    }

    fn save_recipients(&mut self, id: EmailId, all: &[Recipient]) -> rusqlite::Result<()> {
        recipient_row::save(self, id, all)
    }

    fn revive_recipients(&mut self, id: EmailId) -> rusqlite::Result<()> {
        recipient_row::revive(self, id)
    }

    fn give_up_recipients(
        &mut self,
        id: EmailId,
        reason: Option<DeadReason>,
    ) -> rusqlite::Result<()> {
        recipient_row::give_up_waiting(self, id, reason)
    }

    fn accept_recipients(&mut self, id: EmailId) -> rusqlite::Result<()> {
        recipient_row::accept_waiting(self, id)
    }

    fn remove(&mut self, id: EmailId, status: Status) -> rusqlite::Result<()> {
        prune::remove_one(self, id, status)
    }

    fn erase(&mut self, id: EmailId) -> rusqlite::Result<()> {
        act::erase(self, id)
    }

    fn audit(
        &mut self,
        actor: &str,
        action: &str,
        subject: &str,
        result: &str,
    ) -> rusqlite::Result<()> {
        act::audit(self, actor, action, subject, result)
    }
}

/// The same columns by their names alone, in the same order.
pub(super) const NAMES: [&str; STATE_WIDTH] = [
    "status",
    "phase",
    "attempt_number",
    "attempt_count",
    "budget_from",
    "max_attempts",
    "next_attempt_at",
    "locked_until",
    "lease_token",
    "worker",
    "started_at",
    "lost_count",
    "unknown_count",
    "possible_duplicate",
    "last_queued_at",
    "last_error",
    "error_class",
    "dead_reason",
    "fingerprint",
    "sent_at",
    "finished_at",
    "inline",
    "waiting_for",
    "waits_until",
    "transport",
    "bound_to",
    "tried",
    "ignores_expiry",
];

fn values(state: &State) -> [ValueRef<'_>; STATE_WIDTH] {
    let integer = |number: i64| ValueRef::Integer(number);
    let count = |number: u32| ValueRef::Integer(number.into());
    let time = |at: Option<Timestamp>| at.map_or(ValueRef::Null, |at| integer(micros(at)));
    let text = optional_text;
    [
        ValueRef::from(state.status.as_str()),
        ValueRef::from(state.phase.as_str()),
        count(state.attempt_number),
        count(state.attempt_count),
        count(state.budget_from),
        state.max_attempts.map_or(ValueRef::Null, count),
        time(state.next_attempt_at),
        time(state.locked_until),
        integer(state.lease_token),
        text(state.worker.as_deref()),
        time(state.started_at),
        count(state.lost_count),
        count(state.unknown_count),
        integer(state.possible_duplicate.into()),
        time(state.last_queued_at),
        text(state.last_error.as_deref()),
        text(state.error_class.as_deref()),
        text(state.dead_reason.map(DeadReason::as_str)),
        text(state.fingerprint.as_deref()),
        time(state.sent_at),
        time(state.finished_at),
        integer(state.inline.into()),
        text(state.waiting_for.as_deref()),
        time(state.waits_until),
        text(state.transport.as_deref()),
        text(state.bound_to.as_deref()),
        text(state.tried.as_deref()),
        integer(state.ignores_expiry.into()),
    ]
}

fn optional_text(text: Option<&str>) -> ValueRef<'_> {
    text.map_or(ValueRef::Null, ValueRef::from)
}

/// Writes what differs between two states of an email: SQLite then leaves alone the indexes and the
/// checks that the rest is in. The same few differences come again and again.
fn update(
    writer: &mut impl Execute,
    id: EmailId,
    before: &State,
    next: &State,
) -> rusqlite::Result<()> {
    let mut columns = 0;
    let mut changed = Vec::with_capacity(STATE_WIDTH + 1);
    let both = values(before).into_iter().zip(values(next));
    for (place, (old, new)) in both.enumerate() {
        if old != new {
            columns |= 1 << place;
            changed.push(ToSqlOutput::Borrowed(new));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    changed.push(ToSqlOutput::Borrowed(ValueRef::Blob(id.0.as_bytes())));
    let changed: Vec<&dyn ToSql> = changed.iter().map(|value| value as _).collect();
    writer.carry_out(Known::Update(columns), &changed).map(drop)
}

/// The statement that writes these columns: those whose bit is set.
pub(super) fn update_of(columns: u32) -> String {
    let is_set = |place: &usize| columns & (1 << place) != 0;
    let places = (0..STATE_WIDTH).filter(is_set);
    let set: Vec<String> = places.map(|at| format!("{} = ?", NAMES[at])).collect();
    format!(
        "UPDATE posthaste_email_log SET {} WHERE id = ?",
        set.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_written_in_the_order_in_which_they_are_read() {
        let columns: Vec<&str> = STATE_COLUMNS.split(',').map(str::trim).collect();
        assert_eq!(columns, NAMES.map(|name| format!("l.{name}")));
    }
}
