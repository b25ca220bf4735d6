//! An email as it is kept: what never changes after it was accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;
use crate::address::Address;
use crate::attempt::AttemptRecord;
use crate::lifecycle::State;
use crate::retry_policy::RetryPolicy;
use crate::status::{DeadReason, Priority, Status, named};
use crate::{step, way};

/// The identity of an email: a UUID of version 7, so that ids sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmailId(pub Uuid);

impl EmailId {
    /// A new id.
    #[must_use]
    pub fn generate() -> Self {
        Self(step::stepped_id(Uuid::now_v7()))
    }
}

impl fmt::Display for EmailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EmailId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The SMTP envelope: who it is from and whom it goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The return path.
    pub from: Address,
    /// Everyone it goes to: to, cc and bcc, each once.
    pub recipients: Vec<Address>,
}

/// What people see of an email in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The From header.
    pub from: String,
    /// The To header's mailboxes.
    pub to: Vec<String>,
    /// The subject.
    pub subject: String,
}

/// Which retry policy an email follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PolicyChoice {
    /// A policy by name; what it says now counts.
    Named(String),
    /// A policy of its own.
    Own(Box<RetryPolicy>),
}

impl Default for PolicyChoice {
    fn default() -> Self {
        Self::Named("email".to_owned())
    }
}

/// An email that is about to be kept.
#[derive(Debug, Clone)]
pub struct NewEmail {
    /// Its identity.
    pub id: EmailId,
    /// Whose it is: the owner of the API key.
    pub owner: String,
    /// The caller's idempotency key, unique per owner.
    pub message_key: String,
    /// The digest of the request as it was given, by which it is recognised when it comes again.
    pub payload_hash: [u8; 32],
    /// The template it was rendered from.
    pub template: Option<String>,
    /// Which emails go first.
    pub priority: Priority,
    /// Where it goes.
    pub envelope: Envelope,
    /// What people see of it.
    pub summary: Summary,
    /// The finished MIME message, the same bytes at every attempt.
    pub content: Bytes,
    /// The caller's own data.
    pub metadata: BTreeMap<String, String>,
    /// Which retry policy it follows.
    pub policy: PolicyChoice,
    /// Its own budget, when the caller set one.
    pub max_attempts: Option<u32>,
    /// Which route it takes; `None` for the default one.
    pub route: Option<String>,
    /// Not to be sent before.
    pub send_at: Option<Timestamp>,
    /// Not to be sent after.
    pub expires_at: Option<Timestamp>,
    /// The W3C trace context of the request.
    pub traceparent: Option<String>,
}

named! {
    /// Where one recipient stands, once recipients of an email differ.
    RecipientStatus {
        /// Still to be tried.
        Waiting = "waiting",
        /// The server took it.
        Accepted = "accepted",
        /// Given up.
        Dead = "dead",
    }
}

/// One recipient of an email.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// Its address.
    pub address: Address,
    /// Where it stands.
    pub status: RecipientStatus,
    /// The last reply or error about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DeadReason>,
}

impl Recipient {
    /// A recipient that is still to be tried.
    #[must_use]
    pub const fn waiting(address: Address) -> Self {
        Self {
            address,
            status: RecipientStatus::Waiting,
            detail: None,
            reason: None,
        }
    }
}

/// An email as it is read back.
#[derive(Debug, Clone)]
pub struct EmailRecord {
    /// Its identity.
    pub id: EmailId,
    /// Whose it is.
    pub owner: String,
    /// The caller's idempotency key.
    pub message_key: String,
    /// The template it was rendered from.
    pub template: Option<String>,
    /// Which emails go first.
    pub priority: Priority,
    /// What people see of it.
    pub summary: Summary,
    /// Everyone it goes to, and where each stands.
    pub recipients: Vec<Recipient>,
    /// The caller's own data.
    pub metadata: BTreeMap<String, String>,
    /// Which retry policy it follows.
    pub policy: PolicyChoice,
    /// Which route it takes; `None` for the default one.
    pub route: Option<String>,
    /// Not to be sent before.
    pub send_at: Option<Timestamp>,
    /// Not to be sent after.
    pub expires_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The size of the MIME message in octets.
    pub size_bytes: u64,
    /// When its content was erased.
    pub erased_at: Option<Timestamp>,
    /// Where it is in its life.
    pub state: State,
    /// Every attempt so far, where asked for.
    pub attempts: Vec<AttemptRecord>,
}

impl EmailRecord {
    /// What happens to it, in words for people.
    #[must_use]
    pub fn status_text(&self, max_attempts: u32, now: Timestamp) -> String {
        let state = &self.state;
        if let Some(ways) = &state.waiting_for {
            return format!("Waiting for {}", way::in_words(ways));
        }
        match state.status {
            Status::Pending if state.next_attempt_at.is_some_and(|at| at > now) => {
                "Scheduled".into()
            }
            Status::Pending => "Waiting".into(),
            Status::Sending if !state.has_failed() => "Sending".into(),
            Status::Failed | Status::RetryQueued if !state.has_failed() => "Waiting".into(),
            Status::Sending | Status::Failed | Status::RetryQueued => {
                format!(
                    "Retrying (attempt {} of {max_attempts})",
                    (state.attempt_count + 1).min(max_attempts)
                )
            }
            Status::Sent => "Delivered".into(),
            Status::Unknown => "Uncertain".into(),
            Status::Dead => match self.accepted_recipients() {
                0 => "Failed (moved to dead letter queue)".into(),
                accepted => format!("Delivered to {accepted} of {}", self.recipients.len()),
            },
            Status::Discarded => "Permanently Failed".into(),
            Status::Cancelled => "Cancelled".into(),
        }
    }

    fn accepted_recipients(&self) -> usize {
        self.recipients
            .iter()
            .filter(|r| r.status == RecipientStatus::Accepted)
            .count()
    }
}
