//! What a team is told when emails die: one alert for many, not one each.

use crate::Timestamp;
use crate::email::EmailId;
use crate::status::DeadReason;

/// Emails that died of the same thing since the last alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertGroup {
    /// What they have in common.
    pub fingerprint: String,
    /// Why the last of them was given up.
    pub reason: DeadReason,
    /// How many.
    pub count: u64,
    /// When the first died.
    pub first_at: Timestamp,
    /// When the last died.
    pub last_at: Timestamp,
    /// One of the errors, word for word.
    pub sample: Option<String>,
    /// One of the emails.
    pub email_id: EmailId,
}

/// What a channel is to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The same for every try to tell it, so that a receiver can tell copies apart.
    pub id: String,
    /// Which service speaks.
    pub service: String,
    /// Where people can look, if that is known.
    pub dashboard_url: Option<String>,
    /// Whether nothing died, and someone only wants to see an alert arrive.
    pub is_test: bool,
    /// What died, most first; empty for a test only.
    pub groups: Vec<AlertGroup>,
    /// How many emails are in the dead letter queue now.
    pub dead_letters: u64,
    /// When it is told.
    pub at: Timestamp,
}

impl Alert {
    /// How many emails died.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.groups.iter().map(|group| group.count).sum()
    }

    /// The news in a line.
    #[must_use]
    pub fn headline(&self) -> String {
        if self.is_test {
            return "This is a test alert: no email died".into();
        }
        let emails = match self.count() {
            1 => "email was",
            _ => "emails were",
        };
        let reasons = match self.groups.len() {
            1 => String::new(),
            n => format!(", for {n} different reasons"),
        };
        format!(
            "{} {emails} moved to the dead letter queue{reasons}",
            self.count()
        )
    }
}
