//! Compares three witnesses for every email: the clients' ledger, the rows, and the copies that
//! the mail server counted.

use std::collections::{BTreeMap, HashMap};

use posthaste_sink::Report as SinkReport;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::ledger::Ledger;

/// At most this many broken emails are told in full.
const MOST_TOLD: usize = 20;
/// So many are told as examples of what is held for an operator.
const MOST_HELD_TOLD: usize = 3;
/// An email that this many workers were lost over is poison, by design.
const LOSSES_OF_POISON: u64 = 3;

/// One row of `email` and `email_log`.
struct Stored {
    key: String,
    status: String,
    dead_reason: Option<String>,
    line: String,
    attempts: Vec<Attempt>,
}

/// One row of `email_attempt`.
struct Attempt {
    outcome: String,
    worker_lost: bool,
    line: String,
}

impl Stored {
    fn with_outcome(&self, outcome: &str) -> u64 {
        let attempts = self.attempts.iter();
        attempts.filter(|a| a.outcome == outcome).count() as u64
    }
}

/// What the comparison found.
#[derive(Default)]
pub(super) struct Audit {
    pub(super) accepted: u64,
    pub(super) by_status: BTreeMap<String, u64>,
    pub(super) dead_by_reason: BTreeMap<String, u64>,
    pub(super) attempts: BTreeMap<String, u64>,
    /// Leases that ended before the gate, and after it.
    pub(super) rescued: (u64, u64),
    /// Emails with more than one copy, and how many of them have a recorded `unknown`.
    pub(super) several_copies: u64,
    pub(super) several_copies_explained: u64,
    /// Copies beyond the first of each email.
    pub(super) extra_copies: u64,
    /// In the ledger, but neither delivered nor explained.
    pub(super) lost: u64,
    /// More copies than 1 + attempts of unknown fate.
    pub(super) silent_duplicates: u64,
    /// Dead although every recipient is good, without three lost workers on record.
    pub(super) wrongly_dead: u64,
    /// Stored, but no client knows of it.
    pub(super) unasked: u64,
    /// The same id for two keys, or another key than was sent.
    pub(super) mistaken: u64,
    /// Broken emails with all that is known about them.
    pub(super) broken: Vec<String>,
    /// Some of the emails that are held. Nothing is wrong with them.
    pub(super) held: Vec<String>,
}

impl Audit {
    pub(super) async fn of(
        database: &Client,
        ledger: &Ledger,
        sink: &SinkReport,
    ) -> anyhow::Result<Self> {
        let mut stored = read(database).await?;
        let mut copies: HashMap<Uuid, u64> = HashMap::new();
        for count in &sink.copies {
            // The Message-ID is the email's id at the sender's domain.
            let id = count.message_id.split('@').next().unwrap_or_default();
            *copies.entry(id.parse()?).or_default() += count.copies;
        }
        let mut audit = Self::default();
        for (key, id) in ledger.entries() {
            audit.accepted += 1;
            // Removed, so that an id that was given twice is missing the second time.
            match stored.remove(&id) {
                Some(email) => audit.judge(id, &key, &email, copies.remove(&id).unwrap_or(0)),
                None => {
                    audit.lost += 1;
                    audit.tell(format!(
                        "LOST: {id} (key {key}) was accepted, but is not there"
                    ));
                }
            }
        }
        for (id, email) in &stored {
            audit.unasked += 1;
            audit.tell(format!("UNASKED: {id} is in no ledger\n{}", email.line));
        }
        for (id, copies) in copies {
            audit.unasked += 1;
            audit.tell(format!(
                "UNASKED: {copies} copies of {id}, which nobody posted"
            ));
        }
        Ok(audit)
    }

    fn judge(&mut self, id: Uuid, key: &str, email: &Stored, copies: u64) {
        *self.by_status.entry(email.status.clone()).or_default() += 1;
        for attempt in &email.attempts {
            *self.attempts.entry(attempt.outcome.clone()).or_default() += 1;
            match (attempt.worker_lost, attempt.outcome.as_str()) {
                (true, "lost") => self.rescued.0 += 1,
                (true, "unknown") => self.rescued.1 += 1,
                _ => {}
            }
        }
        let unknown = email.with_outcome("unknown");
        self.extra_copies += copies.saturating_sub(1);
        if copies > 1 {
            self.several_copies += 1;
            self.several_copies_explained += u64::from(unknown > 0);
        }
        let mut troubles = Vec::new();
        if email.key != key {
            self.mistaken += 1;
            troubles.push("MISTAKEN: it has another key");
        }
        if copies > 1 + unknown {
            self.silent_duplicates += 1;
            troubles.push("SILENT DUPLICATE: more copies than attempts of unknown fate explain");
        }
        match email.status.as_str() {
            "sent" if copies > 0 => {}
            "sent" => {
                self.lost += 1;
                troubles.push("LOST: recorded as sent, but the mail server never had it");
            }
            // Held: an operator is asked, with the reason on record.
            "unknown" if unknown > 0 => {
                if self.held.len() < MOST_HELD_TOLD {
                    self.held
                        .push(told("HELD: an operator is asked", id, key, email, copies));
                }
            }
            "dead" => {
                let reason = email.dead_reason.clone().unwrap_or_default();
                let poison = reason == "Poison" && email.with_outcome("lost") >= LOSSES_OF_POISON;
                *self.dead_by_reason.entry(reason).or_default() += 1;
                if !poison {
                    self.wrongly_dead += 1;
                    troubles.push("WRONGLY DEAD: its recipient is good");
                }
            }
            _ => {
                self.lost += 1;
                troubles.push("LOST: it is neither delivered nor explained");
            }
        }
        for trouble in troubles {
            self.tell(told(trouble, id, key, email, copies));
        }
    }

    fn tell(&mut self, what: String) {
        if self.broken.len() < MOST_TOLD {
            self.broken.push(what);
        }
    }
}

/// All that is known about an email.
fn told(what: &str, id: Uuid, key: &str, email: &Stored, copies: u64) -> String {
    let mut text = format!(
        "{what}\n  {id} (key {key}), {copies} copies at the mail server\n  email_log {}",
        email.line
    );
    for attempt in &email.attempts {
        text.push_str("\n  email_attempt ");
        text.push_str(&attempt.line);
    }
    text
}

async fn read(database: &Client) -> anyhow::Result<HashMap<Uuid, Stored>> {
    let emails = "SELECT e.id, e.message_key, coalesce(l.status, 'missing'), l.dead_reason,
                         coalesce(row_to_json(l)::text, '')
                  FROM email e LEFT JOIN email_log l ON l.id = e.id";
    let attempts = "SELECT email_id, outcome, coalesce(error_class = 'worker_lost', false),
                           row_to_json(a)::text
                    FROM email_attempt a ORDER BY email_id, number";
    let mut stored = HashMap::new();
    for row in database.query(emails, &[]).await? {
        stored.insert(row.try_get(0)?, stored_in(&row)?);
    }
    for row in database.query(attempts, &[]).await? {
        let id: Uuid = row.try_get(0)?;
        if let Some(email) = stored.get_mut(&id) {
            email.attempts.push(Attempt {
                outcome: row.try_get(1)?,
                worker_lost: row.try_get(2)?,
                line: row.try_get(3)?,
            });
        }
    }
    Ok(stored)
}

fn stored_in(row: &Row) -> anyhow::Result<Stored> {
    Ok(Stored {
        key: row.try_get(1)?,
        status: row.try_get(2)?,
        dead_reason: row.try_get(3)?,
        line: row.try_get(4)?,
        attempts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(status: &str, dead_reason: Option<&str>, outcomes: &[&str]) -> Stored {
        let attempt = |outcome: &&str| Attempt {
            outcome: (*outcome).to_owned(),
            worker_lost: *outcome == "lost",
            line: String::new(),
        };
        Stored {
            key: "key".to_owned(),
            status: status.to_owned(),
            dead_reason: dead_reason.map(str::to_owned),
            line: String::new(),
            attempts: outcomes.iter().map(attempt).collect(),
        }
    }

    /// Lost, silent duplicates, wrongly dead.
    fn judged(email: &Stored, copies: u64) -> (u64, u64, u64) {
        let mut audit = Audit::default();
        audit.judge(Uuid::nil(), "key", email, copies);
        let (lost, doubled, dead) = (audit.lost, audit.silent_duplicates, audit.wrongly_dead);
        assert_eq!(audit.broken.is_empty(), lost + doubled + dead == 0);
        (lost, doubled, dead)
    }

    #[test]
    fn one_copy_of_a_sent_email_is_right_and_none_is_a_loss() {
        let sent = email("sent", None, &["transient", "lost", "sent"]);
        assert_eq!(judged(&sent, 1), (0, 0, 0));
        assert_eq!(judged(&sent, 0), (1, 0, 0));
    }

    #[test]
    fn a_second_copy_needs_an_attempt_of_unknown_fate() {
        assert_eq!(judged(&email("sent", None, &["sent"]), 2), (0, 1, 0));
        let resent = email("sent", None, &["unknown", "sent"]);
        assert_eq!(judged(&resent, 2), (0, 0, 0));
        assert_eq!(judged(&resent, 3), (0, 1, 0));
    }

    #[test]
    fn what_is_still_under_way_at_the_end_is_lost() {
        for status in ["pending", "sending", "failed", "retry_queued", "missing"] {
            assert_eq!(judged(&email(status, None, &[]), 0), (1, 0, 0), "{status}");
        }
        assert_eq!(judged(&email("unknown", None, &["unknown"]), 1), (0, 0, 0));
        assert_eq!(judged(&email("unknown", None, &[]), 0), (1, 0, 0));
    }

    #[test]
    fn only_three_lost_workers_excuse_a_death() {
        let poison = email("dead", Some("Poison"), &["lost", "lost", "lost"]);
        assert_eq!(judged(&poison, 0), (0, 0, 0));
        let early = email("dead", Some("Poison"), &["lost", "lost"]);
        assert_eq!(judged(&early, 0), (0, 0, 1));
        let spent = email("dead", Some("MaxAttemptsExceeded"), &["transient"]);
        assert_eq!(judged(&spent, 0), (0, 0, 1));
    }

    #[test]
    fn another_key_is_a_mistake() {
        let mut audit = Audit::default();
        audit.judge(Uuid::nil(), "other", &email("sent", None, &["sent"]), 1);
        assert_eq!(audit.mistaken, 1);
    }
}
