//! One transaction over the rows: what the ledger of all stores reads and writes.

use std::convert::Infallible;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, Recipient, RecipientStatus};
use posthaste_core::lifecycle::{Event, State, Transition};
use posthaste_core::port::{DeadNotice, Lease};
use posthaste_core::status::{DeadReason, Status};
use posthaste_store::ledger::{Facts, Ledger};

use super::{Database, Row, Tables};
use crate::nature::Nature;
use crate::planted::PlantedBug;

/// One transaction.
pub(super) struct Transaction<'a> {
    pub(super) database: &'a Database,
    pub(super) tables: &'a mut Tables,
    pub(super) writer: &'a str,
    now: Timestamp,
}

/// What cannot fail.
pub(super) fn sure<T>(result: Result<T, Infallible>) -> T {
    let Ok(value) = result;
    value
}

impl<'a> Transaction<'a> {
    pub(super) fn new(database: &'a Database, tables: &'a mut Tables, writer: &'a str) -> Self {
        Self {
            now: database.nature.now(),
            database,
            tables,
            writer,
        }
    }

    pub(super) fn nature(&self) -> &'a Nature {
        &self.database.nature
    }

    /// The token that a write is checked by: the one it carries.
    pub(super) fn token(&self, lease: Lease) -> i64 {
        let present = || self.tables.row(lease.id).map(|row| row.state.lease_token);
        match self.database.planted {
            // Whoever comes is believed.
            Some(PlantedBug::Token) => present().unwrap_or(lease.token),
            _ => lease.token,
        }
    }

    /// A write of an attempt was taken: it must carry the present token.
    pub(super) fn assert_fenced(&self, lease: Lease, what: &str) {
        let Some(row) = self.tables.row(lease.id) else {
            return;
        };
        let is_blind = self.database.planted == Some(PlantedBug::Token);
        if row.state.lease_token != lease.token && !is_blind {
            let (name, token) = (row.name(), row.state.lease_token);
            let detail = format!("{what} of {name} with token {} at {token}", lease.token);
            self.nature().breach("I4", detail);
        }
    }

    /// Says in the log what happened to an email.
    pub(super) fn say(&self, id: EmailId, what: impl FnOnce() -> String) {
        self.nature().say(self.writer, || {
            let name = self.tables.name(id);
            let now = self.tables.row(id).map(|row| {
                let state = &row.state;
                format!(
                    "{}/{} n{} c{} t{}",
                    state.status,
                    state.phase,
                    state.attempt_number,
                    state.attempt_count,
                    state.lease_token
                )
            });
            format!("{name:<4} {:<40} {}", what(), now.unwrap_or_default())
        });
    }

    fn row_mut(&mut self, id: EmailId) -> Option<&mut Row> {
        self.tables.row_mut(id)
    }

    /// Changes where recipients stand.
    fn with_standings(&mut self, id: EmailId, change: impl FnMut(&mut Recipient)) {
        if let Some(row) = self.row_mut(id) {
            row.standings.iter_mut().for_each(change);
        }
    }
}

impl Ledger for Transaction<'_> {
    type Error = Infallible;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn state(&mut self, id: EmailId) -> Result<Option<State>, Infallible> {
        Ok(self.tables.row(id).map(|row| row.state.clone()))
    }

    fn facts(&mut self, id: EmailId) -> Result<Option<Facts>, Infallible> {
        Ok(self.tables.row(id).map(|row| {
            let mut given_up = row.standings.iter();
            let given_up = given_up.find(|one| one.status == RecipientStatus::Dead);
            Facts {
                owner: row.email.owner.clone(),
                message_key: row.email.message_key.clone(),
                priority: row.email.priority,
                policy: row.email.policy.clone(),
                expires_at: row.email.expires_at,
                erased: row.erased_at.is_some(),
                traceparent: row.email.traceparent.clone(),
                given_up: given_up.and_then(|one| one.reason),
            }
        }))
    }

    fn has_spent(&mut self, id: EmailId, number: u32) -> Result<bool, Infallible> {
        let row = self.tables.row(id);
        Ok(row.is_some_and(|row| {
            let spent = |one: &&posthaste_core::attempt::AttemptRecord| {
                one.number == number && !one.is_free && one.outcome.is_counted()
            };
            row.attempts.iter().any(|one| spent(&one))
        }))
    }

    fn write(
        &mut self,
        id: EmailId,
        before: &State,
        event: &Event<'_>,
        transition: &Transition,
    ) -> Result<(), Infallible> {
        let (now, next) = (self.now, &transition.next);
        *self.tables.counters.entry(before.status).or_default() -= 1;
        *self.tables.counters.entry(next.status).or_default() += 1;
        let policies = &self.database.policies;
        let Some(row) = self.tables.row_mut(id) else {
            return Ok(());
        };
        row.state = next.clone();
        if let Some(attempt) = &transition.attempt {
            row.record(attempt);
        }
        if let Event::Refund { number } = event {
            let mut attempts = row.attempts.iter_mut();
            if let Some(attempt) = attempts.find(|one| one.number == *number) {
                attempt.is_free = true;
            }
        }
        let policy = policies.of(&row.email.policy);
        let expires = row.email.expires_at.is_some();
        let kept = row.book.keep(before, event, next, policy, expires, now);
        let notice = transition.is_death(before.status).then(|| DeadNotice {
            email_id: id,
            message_key: row.email.message_key.clone(),
            reason: next.dead_reason.unwrap_or(DeadReason::Uncertain),
            error: next.last_error.clone(),
            attempts: next.attempt_count,
            died_at: now,
        });
        if let Err(breach) = kept {
            let detail = format!("{} {breach}", row.name());
            self.nature().breach("I7", detail);
        }
        if let Some(notice) = notice {
            self.tables.notices.push(Some((notice, None)));
        }
        Ok(())
    }

    fn save_recipients(&mut self, id: EmailId, all: &[Recipient]) -> Result<(), Infallible> {
        if let Some(row) = self.row_mut(id) {
            row.standings = all.to_vec();
        }
        Ok(())
    }

    fn revive_recipients(&mut self, id: EmailId) -> Result<(), Infallible> {
        if let Some(row) = self.row_mut(id) {
            let accepted = |one: &Recipient| one.status == RecipientStatus::Accepted;
            if !row.standings.iter().any(accepted) {
                row.standings.clear();
            }
        }
        self.with_standings(id, |one| {
            if one.status == RecipientStatus::Dead {
                one.status = RecipientStatus::Waiting;
                one.reason = None;
            }
        });
        Ok(())
    }

    fn give_up_recipients(
        &mut self,
        id: EmailId,
        reason: Option<DeadReason>,
    ) -> Result<(), Infallible> {
        self.with_standings(id, |one| {
            if one.status == RecipientStatus::Waiting {
                one.status = RecipientStatus::Dead;
                one.reason = reason;
            }
        });
        Ok(())
    }

    fn accept_recipients(&mut self, id: EmailId) -> Result<(), Infallible> {
        self.with_standings(id, |one| {
            if one.status == RecipientStatus::Waiting {
                one.status = RecipientStatus::Accepted;
            }
        });
        Ok(())
    }

    fn remove(&mut self, _: EmailId, _: Status) -> Result<(), Infallible> {
        // No process of a simulation removes what it sent.
        Ok(())
    }

    fn erase(&mut self, id: EmailId) -> Result<(), Infallible> {
        let now = self.now;
        if let Some(row) = self.row_mut(id) {
            row.erased_at = Some(now);
        }
        Ok(())
    }

    fn audit(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}
