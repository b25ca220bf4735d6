//! Compares three witnesses for every email: the clients' ledger, the rows, and the copies that
//! the mail server counted.

use std::collections::{BTreeMap, HashMap};

use posthaste_sink::Report as SinkReport;
use uuid::Uuid;

use super::ledger::{Entry, Expected, Ledger};
use super::stored::{Books, Stored};

/// At most this many broken emails are told in full.
const MOST_TOLD: usize = 20;
/// So many are told as examples of what is held for an operator.
const MOST_HELD_TOLD: usize = 3;
/// An email that this many workers were lost over is poison, by design.
const LOSSES_OF_POISON: u64 = 3;

/// What the mail server counted of one email.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copies {
    /// Of the recipient who has most.
    most: u64,
    /// Of all recipients.
    all: u64,
    /// How many recipients have any.
    recipients: u64,
}

impl Copies {
    fn add(&mut self, copies: u64) {
        self.most = self.most.max(copies);
        self.all += copies;
        self.recipients += 1;
    }
}

/// Whether an email ended as it must.
enum Verdict {
    Right,
    /// An operator is asked, with the reason on record.
    Held,
    Lost(&'static str),
    WronglyDead(&'static str),
    Unasked(&'static str),
}

fn verdict(expected: Expected, email: &Stored, copies: Copies) -> Verdict {
    let is_poison = email.dead_reason.as_deref() == Some("Poison")
        && email.with_outcome("lost") >= LOSSES_OF_POISON;
    match (email.status.as_str(), expected) {
        ("unknown", _) if email.with_outcome("unknown") > 0 => Verdict::Held,
        ("sent", Expected::Delivered) if copies.all > 0 => Verdict::Right,
        ("sent", Expected::Delivered) => {
            Verdict::Lost("LOST: recorded as sent, but the mail server never had it")
        }
        ("sent", _) => Verdict::Unasked("UNASKED: recorded as sent, and cannot have been"),
        ("dead", Expected::Cancelled) => Verdict::WronglyDead("WRONGLY DEAD: it was withdrawn"),
        ("dead", _) if is_poison => Verdict::Right,
        ("dead", Expected::Delivered) => {
            Verdict::WronglyDead("WRONGLY DEAD: its recipient is good")
        }
        ("dead", Expected::Partly) if copies.all == 0 => {
            Verdict::Lost("LOST: the good one of its recipients has no copy")
        }
        // A server that hangs takes what it would have refused.
        ("dead", Expected::Dead) if copies.all > email.with_outcome("unknown") => {
            Verdict::Unasked("UNASKED: nobody took it, and there is a copy")
        }
        ("dead", _) => Verdict::Right,
        ("cancelled", Expected::Cancelled) if copies.all == 0 => Verdict::Right,
        ("cancelled", Expected::Cancelled) => {
            Verdict::Unasked("UNASKED: it was withdrawn, and there is a copy")
        }
        _ => Verdict::Lost("LOST: it is neither delivered nor explained"),
    }
}

/// What the comparison found.
#[derive(Default)]
pub(crate) struct Audit {
    pub(crate) accepted: u64,
    pub(crate) by_status: BTreeMap<String, u64>,
    pub(crate) dead_by_reason: BTreeMap<String, u64>,
    pub(crate) attempts: BTreeMap<String, u64>,
    /// Leases that ended before the gate, and after it.
    pub(crate) rescued: (u64, u64),
    /// Emails with more than one copy, and how many of them have a recorded `unknown`.
    pub(crate) several_copies: u64,
    pub(crate) several_copies_explained: u64,
    /// All copies.
    pub(crate) copies: u64,
    /// Copies beyond the first of each recipient.
    pub(crate) extra_copies: u64,
    /// In the ledger, but neither delivered nor explained.
    pub(crate) lost: u64,
    /// More copies than 1 + attempts of unknown fate.
    pub(crate) silent_duplicates: u64,
    /// Dead although every recipient is good, without three lost workers on record.
    pub(crate) wrongly_dead: u64,
    /// Stored, but no client knows of it.
    pub(crate) unasked: u64,
    /// The same id for two keys, or another key than was sent.
    pub(crate) mistaken: u64,
    /// Broken emails with all that is known about them.
    pub(crate) broken: Vec<String>,
    /// Some of the emails that are held. Nothing is wrong with them.
    pub(crate) held: Vec<String>,
}

impl Audit {
    pub(crate) async fn of(
        books: &Books,
        ledger: &Ledger,
        sink: &SinkReport,
    ) -> anyhow::Result<Self> {
        let mut stored = books.emails().await?;
        let mut copies: HashMap<Uuid, Copies> = HashMap::new();
        for count in &sink.copies {
            // The Message-ID is the email's id at the sender's domain.
            let id = count.message_id.split('@').next().unwrap_or_default();
            copies.entry(id.parse()?).or_default().add(count.copies);
        }
        let mut audit = Self::default();
        for entry in ledger.entries() {
            let key = &entry.key;
            let Some(id) = entry.id else {
                audit.lost += 1;
                audit.tell(format!("UNANSWERED: {key} was never accepted"));
                continue;
            };
            audit.accepted += 1;
            // Removed, so that an id that was given twice is missing the second time.
            match stored.remove(&id) {
                Some(email) => {
                    audit.judge(id, &entry, &email, copies.remove(&id).unwrap_or_default());
                }
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
            let n = copies.all;
            audit.tell(format!("UNASKED: {n} copies of {id}, which nobody posted"));
        }
        Ok(audit)
    }

    fn judge(&mut self, id: Uuid, entry: &Entry, email: &Stored, copies: Copies) {
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
        self.copies += copies.all;
        self.extra_copies += copies.all.saturating_sub(copies.recipients);
        if copies.most > 1 {
            self.several_copies += 1;
            self.several_copies_explained += u64::from(unknown > 0);
        }
        let mut troubles = Vec::new();
        if email.key != entry.key {
            self.mistaken += 1;
            troubles.push("MISTAKEN: it has another key");
        }
        if copies.most > 1 + unknown {
            self.silent_duplicates += 1;
            troubles.push("SILENT DUPLICATE: more copies than attempts of unknown fate explain");
        }
        if entry.told_sent && copies.all == 0 {
            self.lost += 1;
            troubles.push("LOST: its caller was told that it is sent, and nobody has it");
        }
        if email.status == "dead" {
            let reason = email.dead_reason.clone().unwrap_or_default();
            *self.dead_by_reason.entry(reason).or_default() += 1;
        }
        match verdict(entry.expected, email, copies) {
            Verdict::Right => {}
            Verdict::Held => {
                if self.held.len() < MOST_HELD_TOLD {
                    let what = "HELD: an operator is asked";
                    self.held.push(told(what, id, entry, email, copies));
                }
            }
            Verdict::Lost(why) => {
                self.lost += 1;
                troubles.push(why);
            }
            Verdict::WronglyDead(why) => {
                self.wrongly_dead += 1;
                troubles.push(why);
            }
            Verdict::Unasked(why) => {
                self.unasked += 1;
                troubles.push(why);
            }
        }
        for trouble in troubles {
            self.tell(told(trouble, id, entry, email, copies));
        }
    }

    fn tell(&mut self, what: String) {
        if self.broken.len() < MOST_TOLD {
            self.broken.push(what);
        }
    }
}

/// All that is known about an email.
fn told(what: &str, id: Uuid, entry: &Entry, email: &Stored, copies: Copies) -> String {
    let (key, expected, copies) = (&entry.key, entry.expected, copies.all);
    let mut text = format!(
        "{what}\n  {id} (key {key}, to be {expected:?}), {copies} copies at the mail server\n  email_log {}",
        email.line
    );
    for attempt in &email.attempts {
        text.push_str("\n  email_attempt ");
        text.push_str(&attempt.line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::stored::Attempt;
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

    fn entry(expected: Expected) -> Entry {
        Entry {
            key: "key".to_owned(),
            expected,
            id: None,
            told_sent: false,
        }
    }

    fn copies(n: u64) -> Copies {
        let mut copies = Copies::default();
        if n > 0 {
            copies.add(n);
        }
        copies
    }

    /// Lost, silent duplicates, wrongly dead, unasked.
    fn judged_as(expected: Expected, email: &Stored, n: u64) -> (u64, u64, u64, u64) {
        let mut audit = Audit::default();
        audit.judge(Uuid::nil(), &entry(expected), email, copies(n));
        let (lost, doubled) = (audit.lost, audit.silent_duplicates);
        let (dead, unasked) = (audit.wrongly_dead, audit.unasked);
        assert_eq!(
            audit.broken.is_empty(),
            lost + doubled + dead + unasked == 0
        );
        (lost, doubled, dead, unasked)
    }

    fn judged(email: &Stored, n: u64) -> (u64, u64, u64, u64) {
        judged_as(Expected::Delivered, email, n)
    }

    #[test]
    fn one_copy_of_a_sent_email_is_right_and_none_is_a_loss() {
        let sent = email("sent", None, &["transient", "lost", "sent"]);
        assert_eq!(judged(&sent, 1), (0, 0, 0, 0));
        assert_eq!(judged(&sent, 0), (1, 0, 0, 0));
    }

    #[test]
    fn a_second_copy_needs_an_attempt_of_unknown_fate() {
        assert_eq!(judged(&email("sent", None, &["sent"]), 2), (0, 1, 0, 0));
        let resent = email("sent", None, &["unknown", "sent"]);
        assert_eq!(judged(&resent, 2), (0, 0, 0, 0));
        assert_eq!(judged(&resent, 3), (0, 1, 0, 0));
    }

    #[test]
    fn what_is_still_under_way_at_the_end_is_lost() {
        for status in ["pending", "sending", "failed", "retry_queued", "missing"] {
            let waiting = email(status, None, &[]);
            assert_eq!(judged(&waiting, 0), (1, 0, 0, 0), "{status}");
        }
        assert_eq!(
            judged(&email("unknown", None, &["unknown"]), 1),
            (0, 0, 0, 0)
        );
        assert_eq!(judged(&email("unknown", None, &[]), 0), (1, 0, 0, 0));
    }

    #[test]
    fn only_three_lost_workers_excuse_a_death() {
        let poison = email("dead", Some("Poison"), &["lost", "lost", "lost"]);
        assert_eq!(judged(&poison, 0), (0, 0, 0, 0));
        let early = email("dead", Some("Poison"), &["lost", "lost"]);
        assert_eq!(judged(&early, 0), (0, 0, 1, 0));
        let spent = email("dead", Some("MaxAttemptsExceeded"), &["transient"]);
        assert_eq!(judged(&spent, 0), (0, 0, 1, 0));
    }

    #[test]
    fn what_nobody_takes_must_die_and_leave_no_copy() {
        let dead = email("dead", Some("HardBounce"), &["permanent"]);
        assert_eq!(judged_as(Expected::Dead, &dead, 0), (0, 0, 0, 0));
        assert_eq!(judged_as(Expected::Dead, &dead, 1), (0, 0, 0, 1));
        let hung = email("dead", Some("HardBounce"), &["unknown", "permanent"]);
        assert_eq!(judged_as(Expected::Dead, &hung, 1), (0, 0, 0, 0));
        let sent = email("sent", None, &["sent"]);
        assert_eq!(judged_as(Expected::Dead, &sent, 1), (0, 0, 0, 1));
        assert_eq!(judged_as(Expected::Partly, &dead, 1), (0, 0, 0, 0));
        assert_eq!(judged_as(Expected::Partly, &dead, 0), (1, 0, 0, 0));
    }

    #[test]
    fn what_was_withdrawn_stays_so() {
        let cancelled = email("cancelled", None, &[]);
        assert_eq!(judged_as(Expected::Cancelled, &cancelled, 0), (0, 0, 0, 0));
        assert_eq!(judged_as(Expected::Cancelled, &cancelled, 1), (0, 0, 0, 1));
        assert_eq!(judged(&cancelled, 0), (1, 0, 0, 0));
    }

    #[test]
    fn who_was_told_that_it_is_sent_must_find_a_copy() {
        let mut audit = Audit::default();
        let told = Entry {
            told_sent: true,
            ..entry(Expected::Delivered)
        };
        let held = email("unknown", None, &["unknown"]);
        audit.judge(Uuid::nil(), &told, &held, copies(0));
        assert_eq!(audit.lost, 1);
    }

    #[test]
    fn another_key_is_a_mistake() {
        let mut audit = Audit::default();
        let other = Entry {
            key: "other".to_owned(),
            ..entry(Expected::Delivered)
        };
        let sent = email("sent", None, &["sent"]);
        audit.judge(Uuid::nil(), &other, &sent, copies(1));
        assert_eq!(audit.mistaken, 1);
    }
}
