//! The row of `email_log` as the lifecycle's `State`, and every way it is written.

use posthaste_core::Timestamp;
use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::{Event, State, Transition};
use posthaste_core::status::{DeadReason, Status};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::email_row::from_json;
use super::writer::Flush;
use super::{act, alert, corrupt, event, from_micros, micros, prune, recipient_row};
use crate::ledger::{Facts, Ledger};

/// The columns of a state, in the order in which `state_of` reads them.
pub(super) const STATE_COLUMNS: &str =
    "l.status, l.phase, l.attempt_number, l.attempt_count, l.budget_from, l.max_attempts,
     l.next_attempt_at, l.locked_until, l.lease_token, l.worker, l.started_at, l.lost_count,
     l.unknown_count, l.possible_duplicate, l.last_queued_at, l.last_error, l.error_class,
     l.dead_reason, l.fingerprint, l.sent_at, l.finished_at, l.inline";
/// How many columns that are.
pub(super) const STATE_WIDTH: usize = 22;

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
pub(super) fn insert(connection: &Connection, id: EmailId, state: &State) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO posthaste_email_log
             (id, status, phase, attempt_number, attempt_count, budget_from,
                 max_attempts, next_attempt_at, lease_token, lost_count, unknown_count,
                 possible_duplicate, last_queued_at, inline)
             VALUES (?1, ?2, ?3, 0, 0, 0, ?4, ?5, 0, 0, 0, 0, ?6, ?7)",
        )?
        .execute(params![
            id.0,
            state.status.as_str(),
            state.phase.as_str(),
            state.max_attempts,
            state.next_attempt_at.map(micros),
            state.last_queued_at.map(micros),
            state.inline,
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

    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> rusqlite::Result<()> {
        let next = &transition.next;
        match event {
            // Two writes are frequent and touch one column that few or no indexes hold.
            Event::Gate { .. } => {
                let sql = "UPDATE posthaste_email_log SET phase = ?2 WHERE id = ?1";
                self.prepare_cached(sql)?
                    .execute((id.0, next.phase.as_str()))?;
            }
            Event::Renew { .. } => {
                let sql = "UPDATE posthaste_email_log SET locked_until = ?2 WHERE id = ?1";
                self.prepare_cached(sql)?
                    .execute((id.0, next.locked_until.map(micros)))?;
            }
            _ => {
                update(self, id, next)?;
                self.count(Some(before.status), Some(next.status), 1);
            }
        }
        if let Some(attempt) = &transition.attempt {
            insert_attempt(self, id, attempt)?;
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
                 sent_at = ?21, finished_at = ?22
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
        ])?;
    Ok(())
}

/// Records an attempt. The same number again is late proof: it replaces what was assumed.
fn insert_attempt(flush: &Flush<'_>, id: EmailId, attempt: &AttemptRecord) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_email_attempt
             (email_id, number, started_at, finished_at, outcome,
                 error_class, error, reply, transport, worker, budget, next_attempt_at, stage)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT DO UPDATE SET finished_at = excluded.finished_at,
                 outcome = excluded.outcome, error_class = excluded.error_class,
                 error = excluded.error, reply = excluded.reply, transport = excluded.transport,
                 budget = excluded.budget, next_attempt_at = excluded.next_attempt_at,
                 stage = excluded.stage",
        )?
        .execute(params![
            id.0,
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
        ])?;
    Ok(())
}

/// Every attempt of an email in order.
pub(super) fn attempts_of(
    connection: &Connection,
    id: EmailId,
) -> rusqlite::Result<Vec<AttemptRecord>> {
    connection
        .prepare_cached(
            "SELECT number, started_at, finished_at, outcome, error_class, error, reply, transport,
                 worker, budget, next_attempt_at, stage
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
            })
        })?
        .collect()
}
