//! A message as it is shown.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_core::Timestamp;
use posthaste_core::message::{MessageRecord, MessageStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Time;
use super::properties::PropertiesBody;

/// The longest payload that is also shown as text.
const LONGEST_TEXT_BYTES: usize = 64 * 1024;

/// A message of another service that failed there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageBody {
    /// Its id, given by whoever handed it in.
    id: Uuid,
    /// The queue it goes back to.
    #[schema(example = "orders")]
    original_queue: String,
    /// `pending`, `retried`, `failed` or `discarded`.
    #[schema(example = "pending")]
    status: &'static str,
    /// What happens to it, in words for people.
    #[schema(example = "Waiting (retry 2 of 3)")]
    status_text: String,
    /// Why it failed in its service last.
    error_reason: String,
    /// How often it was put back into its queue.
    retry_count: u32,
    /// How often it may be.
    max_retries: u32,
    /// When it is put back, while it waits for that.
    next_retry_at: Option<Time>,
    /// Why it is not where it should be.
    last_error: Option<String>,
    /// How often in a row its queue did not take it.
    publish_failures: u32,
    /// How often it may have been put back twice.
    repeats: u32,
    /// The size of its payload in octets.
    payload_bytes: u64,
    /// When it was handed in first.
    created_at: Time,
    /// When it was put back, given up or discarded.
    finished_at: Option<Time>,
}

/// A message with its payload.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageDetail {
    #[serde(flatten)]
    message: MessageBody,
    /// Its payload in base64.
    #[schema(example = "eyJvcmRlciI6NDcxMX0=")]
    payload: String,
    /// Its payload as text, if it is text of at most 64 KiB.
    #[schema(example = "{\"order\":4711}")]
    payload_text: Option<String>,
    /// What it says about itself.
    properties: PropertiesBody,
}

impl MessageBody {
    /// The message as it stands now.
    #[must_use]
    pub fn of(message: MessageRecord, now: Timestamp) -> Self {
        let status_text = message.status_text(now);
        let state = message.state;
        let waits = state.status == MessageStatus::Pending;
        Self {
            id: message.id.0,
            original_queue: message.original_queue,
            status: state.status.as_str(),
            status_text,
            error_reason: message.error_reason,
            retry_count: state.retry_count,
            max_retries: state.max_retries,
            next_retry_at: waits.then_some(Time(state.next_retry_at)),
            last_error: state.last_error,
            publish_failures: state.publish_failures,
            repeats: state.repeats,
            payload_bytes: message.payload_bytes,
            created_at: Time(message.created_at),
            finished_at: state.finished_at.map(Time),
        }
    }
}

impl MessageDetail {
    /// The message as it stands now, with its payload.
    #[must_use]
    pub fn of(mut message: MessageRecord, now: Timestamp) -> Self {
        let payload = std::mem::take(&mut message.payload);
        let properties = std::mem::take(&mut message.properties);
        Self {
            message: MessageBody::of(message, now),
            payload: BASE64.encode(&payload),
            payload_text: text_of(&payload).map(str::to_owned),
            properties: properties.into(),
        }
    }

    /// Its payload as text, if it is text and not too long.
    #[must_use]
    pub fn payload_text(&self) -> Option<&str> {
        self.payload_text.as_deref()
    }

    /// Its headers by name.
    #[must_use]
    pub const fn headers(&self) -> &BTreeMap<String, Value> {
        &self.properties.headers
    }
}

/// The payload as text, if people can read it.
fn text_of(payload: &[u8]) -> Option<&str> {
    let is_readable = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    Some(payload)
        .filter(|payload| payload.len() <= LONGEST_TEXT_BYTES)
        .and_then(|payload| std::str::from_utf8(payload).ok())
        .filter(|text| text.chars().all(is_readable))
}
