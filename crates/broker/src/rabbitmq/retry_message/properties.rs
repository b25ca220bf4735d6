//! What the original message said about itself: as the fields of the `RetryMessage` say, otherwise
//! as the AMQP message around it says. The content type and encoding of the latter are its own,
//! though.

use std::collections::BTreeMap;

use posthaste_core::message::{HeaderValue, Headers, Properties};

use super::super::headers::{self, ROUTING};
use super::super::incoming::Incoming;
use super::super::{outgoing, wire};
use super::{LONGEST_SHORT_BYTES, RetryMessage, RetryMessageError};

/// Says what the content type of the original message was.
const ORIGINAL_CONTENT_TYPE: &str = "x-original-content-type";

/// Says what the content encoding of the original message was.
const ORIGINAL_CONTENT_ENCODING: &str = "x-original-content-encoding";

/// Connects the spans of a trace.
const TRACEPARENT: &str = "traceparent";

/// An address that stands for the channel that publishes. RabbitMQ closes ours if we say it.
const DIRECT_REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Reads the properties of the original message.
pub(super) fn read(
    message: RetryMessage,
    incoming: &Incoming,
) -> Result<Properties, RetryMessageError> {
    let envelope = &incoming.properties;
    let mut around = headers_around(incoming)?;
    let content_type = take_text(&mut around, ORIGINAL_CONTENT_TYPE);
    let content_encoding = take_text(&mut around, ORIGINAL_CONTENT_ENCODING);
    let text = |property: &Option<_>| property.as_ref().map(ToString::to_string);
    let correlation_id = text(envelope.correlation_id());
    let reply_to = text(envelope.reply_to());
    let kind = text(envelope.kind());
    let properties = Properties {
        content_type: short("content_type", [message.content_type, content_type])?,
        content_encoding: short(
            "content_encoding",
            [message.content_encoding, content_encoding],
        )?,
        correlation_id: short("correlation_id", [message.correlation_id, correlation_id])?,
        reply_to: short("reply_to", [message.reply_to, reply_to])?,
        kind: short("type", [message.r#type, kind])?,
        priority: priority(message.priority)?.or(*envelope.priority()),
        headers: original_headers(message.headers, around)?,
    };
    check(&properties)?;
    Ok(properties)
}

/// The headers of the AMQP message, without those that RabbitMQ put there.
fn headers_around(incoming: &Incoming) -> Result<Headers, RetryMessageError> {
    let Some(table) = incoming.properties.headers() else {
        return Ok(Headers::new());
    };
    let too_deep = |error: headers::TooDeep| RetryMessageError::field("headers", error.to_string());
    let mut headers = headers::read(table).map_err(too_deep)?;
    for name in wire::ADDED_BY_RABBITMQ {
        headers.remove(name);
    }
    Ok(headers)
}

/// The given headers if there are any, otherwise those around; but the trace goes on.
fn original_headers(
    given: BTreeMap<String, String>,
    around: Headers,
) -> Result<Headers, RetryMessageError> {
    let mut headers = around;
    if !given.is_empty() {
        let traceparent = headers.remove_entry(TRACEPARENT);
        let given = given.into_iter();
        let given = given.map(|(name, text)| (name, HeaderValue::Text(text)));
        headers = traceparent.into_iter().chain(given).collect();
    }
    for name in ROUTING {
        headers.remove(name);
    }
    if headers.keys().any(|name| name.len() > LONGEST_SHORT_BYTES) {
        let problem = "have a name of more than 255 bytes, which is all that AMQP can carry";
        return Err(RetryMessageError::field("headers", problem));
    }
    Ok(headers)
}

fn take_text(headers: &mut Headers, name: &str) -> Option<String> {
    match headers.remove(name) {
        Some(HeaderValue::Text(text)) => Some(text),
        _ => None,
    }
}

/// The first that says something.
fn short(
    field: &'static str,
    texts: [Option<String>; 2],
) -> Result<Option<String>, RetryMessageError> {
    let mut given = texts.into_iter().flatten().filter(|text| !text.is_empty());
    match given.next() {
        Some(text) if text.len() > LONGEST_SHORT_BYTES => {
            let problem = "has more than 255 bytes, which is all that AMQP can carry";
            Err(RetryMessageError::field(field, problem))
        }
        text => Ok(text),
    }
}

fn priority(number: Option<u32>) -> Result<Option<u8>, RetryMessageError> {
    let Some(number) = number else {
        return Ok(None);
    };
    let too_high = |_| {
        let problem = format!("is {number}; the highest is 255");
        RetryMessageError::field("priority", problem)
    };
    u8::try_from(number).map(Some).map_err(too_high)
}

/// Whether RabbitMQ will take these.
fn check(properties: &Properties) -> Result<(), RetryMessageError> {
    if properties.reply_to.as_deref() == Some(DIRECT_REPLY_TO) {
        let problem = format!("is `{DIRECT_REPLY_TO}`; give the address that RabbitMQ made of it");
        return Err(RetryMessageError::field("reply_to", problem));
    }
    let size_bytes = wire::size_bytes(&outgoing::properties(properties));
    if size_bytes > wire::LARGEST_BYTES {
        let most = wire::LARGEST_BYTES;
        let problem = format!("take {size_bytes} bytes; RabbitMQ can carry {most}");
        return Err(RetryMessageError::field("headers", problem));
    }
    Ok(())
}
