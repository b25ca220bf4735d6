//! Reads what other services hand in: a `RetryMessage`, and the AMQP message around it.

mod json;
mod properties;
#[cfg(test)]
mod tests;

use posthaste_core::Timestamp;
use posthaste_core::message::{DeliveryHash, Failure, MessageId};
use prost::Message as _;

use super::incoming::Incoming;
use super::wire;

pub use self::proto::RetryMessage;

/// What is described in `proto/retry_message.proto`.
mod proto {
    include!(concat!(env!("OUT_DIR"), "/posthaste.v1.rs"));
}

/// The longest text that AMQP can carry as a property or the name of a header.
const LONGEST_SHORT_BYTES: usize = 255;

/// How much of the reason of a failure is kept.
const LONGEST_REASON_BYTES: usize = 8 << 10;

/// What is wrong with a message that was handed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RetryMessageError {
    #[error(
        "not a RetryMessage in protobuf ({0}); if it is JSON, set the content type application/json"
    )]
    NotProtobuf(String),
    #[error("not a JSON object ({0}); if it is protobuf, set no content type")]
    NotJson(String),
    #[error("{field} {problem}")]
    Field {
        field: &'static str,
        problem: String,
    },
}

impl RetryMessageError {
    /// A field breaks a rule.
    pub(super) fn field(field: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Field { field, problem }
    }
}

/// A failure that was handed in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Received {
    pub(super) failure: Failure,
    pub(super) hash: DeliveryHash,
    pub(super) redelivered: bool,
}

/// Reads a delivery. Nothing may go back into one of our own queues: it would come round for ever.
pub(super) fn decode(
    incoming: &Incoming,
    own_queues: &[String],
) -> Result<Received, RetryMessageError> {
    let message = read(incoming)?;
    let failure = Failure {
        message_id: message_id(&message.message_id)?,
        original_queue: original_queue(&message.original_queue, own_queues)?,
        error_reason: error_reason(&message.error_reason),
        retry_count: count("retry_count", message.retry_count)?,
        max_retries: Some(count("max_retries", message.max_retries)?).filter(|max| *max > 0),
        not_before: not_before(message.next_retry_at_ms)?,
        payload: message.original_payload.clone(),
        properties: properties::read(message, incoming)?,
    };
    Ok(Received {
        failure,
        hash: wire::hash(incoming),
        redelivered: incoming.redelivered,
    })
}

fn read(incoming: &Incoming) -> Result<RetryMessage, RetryMessageError> {
    let content_type = incoming.properties.content_type().as_ref();
    if content_type.is_some_and(|content_type| is_json(content_type.as_str())) {
        return json::read(&incoming.body);
    }
    let not_protobuf =
        |error: prost::DecodeError| RetryMessageError::NotProtobuf(error.to_string());
    RetryMessage::decode(incoming.body.clone()).map_err(not_protobuf)
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn message_id(text: &str) -> Result<MessageId, RetryMessageError> {
    let advice = "give each message a UUID that stays the same over its retries";
    let problem = match text {
        "" => format!("is missing; {advice}"),
        _ => format!("is not a UUID; {advice}"),
    };
    let parsed = text.parse();
    parsed.map_err(|_| RetryMessageError::field("message_id", problem))
}

fn original_queue(name: &str, own_queues: &[String]) -> Result<String, RetryMessageError> {
    let advice = "name the queue of your service that the message goes back to";
    let problem = match name {
        "" => "is missing".to_owned(),
        _ if name.len() > LONGEST_SHORT_BYTES => "has more than 255 bytes".to_owned(),
        _ if name.contains('\0') => "has a NUL in it".to_owned(),
        // Replies of callers that wait: RabbitMQ takes them without keeping them.
        _ if name.starts_with("amq.rabbitmq.") => "belongs to RabbitMQ itself".to_owned(),
        _ if own_queues.iter().any(|own| own == name) => {
            format!("is `{name}`, which belongs to Posthaste")
        }
        _ => return Ok(name.to_owned()),
    };
    let problem = format!("{problem}; {advice}");
    Err(RetryMessageError::field("original_queue", problem))
}

/// Databases cannot keep a NUL in a text, and headers not texts of any length.
fn error_reason(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    if text.len() > LONGEST_REASON_BYTES {
        text.truncate(text.floor_char_boundary(LONGEST_REASON_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

fn count(field: &'static str, number: i32) -> Result<u32, RetryMessageError> {
    let negative = |_| RetryMessageError::field(field, format!("is {number}; count from 0"));
    u32::try_from(number).map_err(negative)
}

fn not_before(milliseconds: i64) -> Result<Option<Timestamp>, RetryMessageError> {
    if milliseconds <= 0 {
        return Ok(None);
    }
    let out_of_range = |_| {
        let problem =
            format!("is {milliseconds}; give milliseconds since 1970, up to the year 9999");
        RetryMessageError::field("next_retry_at_ms", problem)
    };
    let moment = Timestamp::from_millisecond(milliseconds).map_err(out_of_range)?;
    Ok(Some(moment))
}
