//! What a message says about itself besides its bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Headers by name.
pub type Headers = BTreeMap<String, HeaderValue>;

/// The value of a header. Brokers know more kinds of numbers; these are the ones that matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderValue {
    /// Nothing at all.
    Void,
    /// Yes or no.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Double(f64),
    /// A text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
    /// A moment, in seconds since 1970.
    Timestamp(u64),
    /// Several values.
    List(Vec<HeaderValue>),
    /// Values by name.
    Table(Headers),
}

impl From<&str> for HeaderValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What a message says about itself besides its bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Properties {
    /// The kind of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// How its bytes are packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// What it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Where an answer is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What kind of message it is.
    #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
    pub kind: Option<String>,
    /// How urgent it is, for queues that care.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Everything else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: Headers,
}

/// The header that carries a trace from service to service.
const TRACEPARENT: &str = "traceparent";

impl Properties {
    /// The trace that it belongs to.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.text(TRACEPARENT)
    }

    /// Says which step of a trace came last.
    pub fn set_traceparent(&mut self, traceparent: Option<String>) {
        if let Some(traceparent) = traceparent {
            let value = HeaderValue::Text(traceparent);
            self.headers.insert(TRACEPARENT.to_owned(), value);
        }
    }

    /// The header with this name, if it is a text.
    #[must_use]
    pub fn text(&self, header: &str) -> Option<&str> {
        match self.headers.get(header) {
            Some(HeaderValue::Text(text)) => Some(text),
            _ => None,
        }
    }
}
