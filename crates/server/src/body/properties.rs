//! What a message says about itself, as it is shown.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_core::Timestamp;
use posthaste_core::message::{HeaderValue, Headers, Properties};
use serde::Serialize;
use serde_json::{Number, Value, json};
use utoipa::ToSchema;

use super::Time;

/// What a message says about itself besides its bytes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Properties)]
pub(crate) struct PropertiesBody {
    /// The kind of its bytes.
    #[schema(example = "application/json")]
    content_type: Option<String>,
    /// How its bytes are packed.
    content_encoding: Option<String>,
    /// What it belongs to.
    correlation_id: Option<String>,
    /// Where an answer is expected.
    reply_to: Option<String>,
    /// What kind of message it is.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// How urgent it is.
    priority: Option<u8>,
    /// Everything else. Bytes are given as `{"base64": …}`, moments as RFC 3339.
    pub(super) headers: BTreeMap<String, Value>,
}

impl From<Properties> for PropertiesBody {
    fn from(properties: Properties) -> Self {
        Self {
            content_type: properties.content_type,
            content_encoding: properties.content_encoding,
            correlation_id: properties.correlation_id,
            reply_to: properties.reply_to,
            kind: properties.kind,
            priority: properties.priority,
            headers: table(properties.headers),
        }
    }
}

fn table<M: FromIterator<(String, Value)>>(headers: Headers) -> M {
    let entry = |(name, header)| (name, value(header));
    headers.into_iter().map(entry).collect()
}

fn value(header: HeaderValue) -> Value {
    match header {
        HeaderValue::Void => Value::Null,
        HeaderValue::Boolean(is) => is.into(),
        HeaderValue::Integer(n) => n.into(),
        HeaderValue::Double(n) => double(n),
        HeaderValue::Text(text) => text.into(),
        HeaderValue::Bytes(bytes) => json!({"base64": BASE64.encode(bytes)}),
        HeaderValue::Timestamp(seconds) => moment(seconds),
        HeaderValue::List(list) => list.into_iter().map(value).collect(),
        HeaderValue::Table(headers) => Value::Object(table(headers)),
    }
}

/// JSON has no infinities: they are given as text.
fn double(n: f64) -> Value {
    Number::from_f64(n).map_or_else(|| n.to_string().into(), Value::Number)
}

/// A moment too far away for a calendar stays a number.
fn moment(seconds: u64) -> Value {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(|| seconds.into(), |at| json!(Time(at)))
}
