//! The promises, compared with what is there: at the end of a run, and while it drains.
//!
//! Some are watched at the moment they could be broken: copies at the mail server (I3), tokens of writes
//! (I4), counts and times of attempts (I7).

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::RecipientStatus;
use posthaste_core::retry_policy::OnUnknown;
use posthaste_core::status::Status;

use crate::caller::Ledger;
use crate::fleet::Ground;
use crate::store::Row;

/// A lease may be left over for this long once the trouble is over.
const GRACE: Duration = Duration::from_secs(5);
/// After errors, services rest for up to this long.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Whether nothing more happens to an email by itself.
fn is_over(row: &Row) -> bool {
    let state = &row.state;
    let is_held = state.status == Status::Unknown && state.next_attempt_at.is_none();
    state.status.is_terminal() || is_held
}

impl Ground {
    /// Whether nothing is left to do.
    pub(crate) fn is_drained(&self) -> bool {
        let tables = self.database.tables();
        tables.rows().all(is_over) && tables.notices.iter().all(Option::is_none)
    }

    /// What is still to be done, for people.
    pub(crate) fn left_over(&self) -> String {
        let tables = self.database.tables();
        let left = tables.rows().filter(|row| !is_over(row));
        let left = left.map(|row| format!("{} is {}", row.name(), row.state.status));
        let untold = tables.notices.iter().flatten().count();
        let untold = (untold > 0).then(|| format!("{untold} deaths are not told"));
        left.chain(untold).collect::<Vec<_>>().join(", ")
    }

    /// Emails whose fate is left to an operator.
    pub(crate) fn held(&self) -> Vec<posthaste_core::email::EmailId> {
        let tables = self.database.tables();
        let held = tables
            .rows()
            .filter(|row| row.state.status == Status::Unknown);
        held.map(|row| row.email.id).collect()
    }

    /// I5: no lease is left over. `calm_since`: when the trouble was over.
    pub(crate) fn check_leases(&self, calm_since: Timestamp) {
        let now = self.nature.now();
        let rested = calm_since.checked_add(LONGEST_REST).unwrap_or(now);
        let tables = self.database.tables();
        for row in tables.rows() {
            let Some(until) = row.state.locked_until else {
                continue;
            };
            let due = until.max(rested).checked_add(GRACE).unwrap_or(now);
            if due < now {
                let late = now.duration_since(until).as_secs();
                let detail = format!("{} is held {late} s after its lease", row.name());
                self.nature.breach("I5", detail);
            }
        }
    }

    /// Everything that must hold when all is over.
    pub(crate) fn check(&self, ledger: &Ledger) {
        self.check_counters();
        self.check_ledger(ledger);
        let tables = self.database.tables();
        for row in tables.rows() {
            self.check_copies(row);
            self.check_attempts(row);
            self.nature.count(match row.state.status {
                Status::Sent => "emails sent",
                Status::Dead => "emails dead",
                Status::Unknown => "emails held",
                Status::Cancelled => "emails cancelled",
                _ => "emails otherwise over",
            });
            for _ in 0..row.unknowns() {
                self.nature.count("attempts of unknown fate");
            }
            for _ in &row.attempts {
                self.nature.count("attempts on record");
            }
        }
    }

    /// I1: the counters equal the rows.
    fn check_counters(&self) {
        let tables = self.database.tables();
        let rows = tables.rows().count();
        if rows as u64 != tables.accepted {
            let detail = format!("{} accepted, {rows} there", tables.accepted);
            self.nature.breach("I1", detail);
        }
        for status in Status::ALL {
            let counted = tables.counters.get(status).copied().unwrap_or(0);
            let there = tables.rows().filter(|row| row.state.status == *status);
            let there = i64::try_from(there.count()).unwrap_or(i64::MAX);
            if counted != there {
                let detail = format!("{counted} {status} are counted, {there} are there");
                self.nature.breach("I1", detail);
            }
        }
    }

    /// I2: what callers saw accepted is there.
    fn check_ledger(&self, ledger: &Ledger) {
        let tables = self.database.tables();
        for (key, id) in ledger.all() {
            self.nature.count("emails accepted, as callers saw it");
            if tables.row(id).is_none() {
                self.nature
                    .breach("I2", format!("{key} was accepted and is not there"));
            }
        }
    }

    /// I3: no silent duplicate, none that the policy does not allow, and nothing called sent that is
    /// not.
    fn check_copies(&self, row: &Row) {
        let policy = self.policies.of(&row.email.policy);
        let resends = match policy.on_unknown {
            OnUnknown::Hold => 0,
            OnUnknown::Resend => policy.max_unknown_resends as usize,
        };
        for recipient in row.recipients() {
            let (name, to) = (row.name(), &recipient.address);
            let copies = self.mail.copies_of(row.email.id, to.as_str());
            if copies > 1 + row.unknowns() {
                let unknowns = row.unknowns();
                let detail = format!("{name} reached {to} {copies} times, {unknowns} unknown");
                self.nature.breach("I3", detail);
            }
            if copies > 1 + resends && !row.book.is_replayed {
                let detail = format!("{name} reached {to} {copies} times against its policy");
                self.nature.breach("I3", detail);
            }
            let is_sent = recipient.status == RecipientStatus::Accepted;
            if is_sent && copies == 0 && !row.book.is_vouched_for {
                let detail = format!("{name} counts as sent to {to}, which has none");
                self.nature.breach("I3", detail);
            }
        }
    }

    /// I4, I5: attempts are numbered without gaps, and only who works on an email holds it.
    fn check_attempts(&self, row: &Row) {
        let state = &row.state;
        let mut numbers = row.attempts.iter().map(|attempt| attempt.number);
        if numbers.any(|number| number > state.attempt_number) {
            let detail = format!("{} has an attempt that never began", row.name());
            self.nature.breach("I4", detail);
        }
        let works = matches!(state.status, Status::Sending | Status::RetryQueued);
        if state.locked_until.is_some() && !works {
            let detail = format!("{} is held and {}", row.name(), state.status);
            self.nature.breach("I5", detail);
        }
    }
}
