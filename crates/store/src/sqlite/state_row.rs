//! The row of `email_log` as the lifecycle's `State`, and every way it is written.

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::{Event, State, Transition};
use posthaste_core::status::{DeadReason, Priority, Status};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::email_row::from_json;
use super::writer::Flush;
use super::{
    act, alert, attempt_row, corrupt, event, from_micros, micros, prune, recipient_row, suppressed,
};
use crate::ledger::{Facts, Ledger, Suppressed};
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

/// Inserts the state of a new email.
pub(super) fn insert(
    connection: &Connection,
    id: EmailId,
    priority: Priority,
    state: &State,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO posthaste_email_log
             (id, status, phase, attempt_number, attempt_count, budget_from,
                 max_attempts, next_attempt_at, lease_token, lost_count, unknown_count,
                 possible_duplicate, last_queued_at, inline, priority)
             VALUES (?1, ?2, ?3, 0, 0, 0, ?4, ?5, 0, 0, 0, 0, ?6, ?7, ?8)",
        )?
        .execute(params![
            id.0,
            state.status.as_str(),
            state.phase.as_str(),
            state.max_attempts,
            state.next_attempt_at.map(micros),
            state.last_queued_at.map(micros),
            state.inline,
            place_of(priority),
        ])?;
    Ok(())
}

impl Ledger for Flush<'_> {
    type Error = rusqlite::Error;

    fn now(&self) -> Timestamp {
        Flush::now(self)
    }

    fn state(&mut self, id: EmailId) -> rusqlite::Result<Option<State>> {
        load(self, id)
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

    fn suppressed(&mut self, owner: &str, to: &[Address]) -> rusqlite::Result<Suppressed> {
        suppressed::among(self, owner, to.iter())
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
        match event {
            // Two writes are frequent and touch columns that few or no indexes hold.
            Event::Gate { .. } => {
                let sql = "UPDATE posthaste_email_log SET phase = ?2, transport = ?3 WHERE id = ?1";
                self.prepare_cached(sql)?
                    .execute((id.0, next.phase.as_str(), &next.transport))?;
            }
            Event::Renew { .. } => {
                let sql = "UPDATE posthaste_email_log SET locked_until = ?2 WHERE id = ?1";
                self.prepare_cached(sql)?
                    .execute((id.0, next.locked_until.map(micros)))?;
            }
            _ => {
                update(self, id, next)?;
                for (from, to) in counted_steps(before.status, event, next.status) {
                    self.count(Some(from), Some(to), 1);
                }
            }
        }
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

/// Writes a whole state.
pub(super) fn update(connection: &Connection, id: EmailId, state: &State) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE posthaste_email_log
             SET status = ?2, phase = ?3, attempt_number = ?4, attempt_count = ?5,
                 budget_from = ?6, max_attempts = ?7, next_attempt_at = ?8, locked_until = ?9,
                 lease_token = ?10, worker = ?11, started_at = ?12, lost_count = ?13,
                 unknown_count = ?14, possible_duplicate = ?15, last_queued_at = ?16,
                 last_error = ?17, error_class = ?18, dead_reason = ?19, fingerprint = ?20,
                 sent_at = ?21, finished_at = ?22, inline = ?23, waiting_for = ?24,
                 waits_until = ?25, transport = ?26, bound_to = ?27, tried = ?28,
                 ignores_expiry = ?29
             WHERE id = ?1",
        )?
        .execute(params![
            id.0,
            state.status.as_str(),
            state.phase.as_str(),
            state.attempt_number,
            state.attempt_count,
            state.budget_from,
            state.max_attempts,
            state.next_attempt_at.map(micros),
            state.locked_until.map(micros),
            state.lease_token,
            state.worker,
            state.started_at.map(micros),
            state.lost_count,
            state.unknown_count,
            state.possible_duplicate,
            state.last_queued_at.map(micros),
            state.last_error,
            state.error_class,
            state.dead_reason.map(|reason| reason.as_str()),
            state.fingerprint,
            state.sent_at.map(micros),
            state.finished_at.map(micros),
            state.inline,
            state.waiting_for,
            state.waits_until.map(micros),
            state.transport,
            state.bound_to,
            state.tried,
            state.ignores_expiry,
        ])?;
    Ok(())
}
