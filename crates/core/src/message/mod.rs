//! A message of another service that failed there and is to be tried again.
//!
//! Whoever handles that service's failures hands it in as a `RetryMessage`; we keep it, and put
//! it back into the queue it came from when its time has come.

mod lifecycle;
mod outgoing;
mod properties;

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::lifecycle::{
    MessageAction, MessagePolicy, MessageRefusal, MessageState, Outcome, Task,
};
pub use self::outgoing::{Destination, Outgoing};
pub use self::properties::{HeaderValue, Headers, Properties};
use crate::Timestamp;
use crate::status::named;

/// The identity of a message, given by whoever handed it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub Uuid);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

named! {
    /// Where a message is in its life.
    MessageStatus {
        /// Waits for its time, or is being republished.
        Pending = "pending",
        /// It was put back into the queue it came from.
        Retried = "retried",
        /// We gave up: it waits for people in the review queue.
        Failed = "failed",
        /// An operator gave up on it.
        Discarded = "discarded",
    }
}

/// What was handed in: a message, where it belongs, and how it failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Which message.
    pub message_id: MessageId,
    /// The message itself, byte for byte.
    pub payload: Bytes,
    /// The queue it goes back to.
    pub original_queue: String,
    /// Why it failed there.
    pub error_reason: String,
    /// How often it was tried again so far, in the eyes of whoever handed it in.
    pub retry_count: u32,
    /// How often it may be; `None` for the default.
    pub max_retries: Option<u32>,
    /// Not before.
    pub not_before: Option<Timestamp>,
    /// What it had about itself.
    pub properties: Properties,
}

/// What identifies the content of a delivery: a hash of everything in it.
pub type DeliveryHash = [u8; 32];

/// A failure on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// What was handed in.
    pub failure: Failure,
    /// Identifies the content of the delivery.
    pub hash: DeliveryHash,
    /// Whether the broker delivered it before, to us or another process.
    pub redelivered: bool,
    /// Picks the jitter, in 0..1.
    pub random: f64,
}

/// A message as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRecord {
    /// Its number in the store; later ones are higher.
    pub number: i64,
    /// Which message.
    pub id: MessageId,
    /// The message itself, where asked for.
    pub payload: Bytes,
    /// How long the message is.
    pub payload_bytes: u64,
    /// The queue it goes back to.
    pub original_queue: String,
    /// Why it failed there last.
    pub error_reason: String,
    /// What it had about itself.
    pub properties: Properties,
    /// Where it is in its life.
    pub state: MessageState,
    /// When it was handed in first.
    pub created_at: Timestamp,
}

impl MessageRecord {
    /// Its state in words for people.
    #[must_use]
    pub fn status_text(&self, now: Timestamp) -> String {
        let MessageState {
            retry_count,
            max_retries,
            ..
        } = self.state;
        match self.state.status {
            MessageStatus::Pending if self.state.is_exhausted() => {
                "On its way to manual review".to_owned()
            }
            MessageStatus::Pending if self.state.locked_until.is_some_and(|until| until > now) => {
                "Being republished".to_owned()
            }
            MessageStatus::Pending if self.state.publish_failures > 0 => {
                let tries = self.state.publish_failures;
                let noun = if tries == 1 { "try" } else { "tries" };
                format!("Could not be republished ({tries} failed {noun})")
            }
            MessageStatus::Pending if self.state.next_retry_at <= now => {
                format!("Due (retry {} of {max_retries})", retry_count + 1)
            }
            MessageStatus::Pending => {
                format!("Waiting (retry {} of {max_retries})", retry_count + 1)
            }
            MessageStatus::Retried => format!("Republished (retry {retry_count} of {max_retries})"),
            MessageStatus::Failed => "In manual review".to_owned(),
            MessageStatus::Discarded => "Discarded".to_owned(),
        }
    }
}
