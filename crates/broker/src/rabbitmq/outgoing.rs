//! Messages of other services on their way out.

use lapin::BasicProperties;
use lapin::types::ShortString;
use posthaste_core::message::{Destination, Outgoing, Properties};

use super::headers;
use super::message::{Message, SetText};
use super::options::QueueNames;

/// A message as RabbitMQ takes it.
pub(super) fn message(outgoing: Outgoing, names: &QueueNames) -> Message {
    let queue = match &outgoing.destination {
        Destination::Original(queue) => queue,
        Destination::Review => &names.review,
    };
    let id = ShortString::from(outgoing.id.to_string());
    let properties = properties(&outgoing.properties);
    Message::with_properties(queue, id, outgoing.payload, properties)
}

/// What a message says about itself. A text that AMQP cannot carry is left out.
pub(super) fn properties(of: &Properties) -> BasicProperties {
    let mut properties = BasicProperties::default();
    if !of.headers.is_empty() {
        properties = properties.with_headers(headers::write(&of.headers));
    }
    if let Some(priority) = of.priority {
        properties = properties.with_priority(priority);
    }
    let texts: [(_, SetText); 5] = [
        (&of.content_type, BasicProperties::with_content_type),
        (&of.content_encoding, BasicProperties::with_content_encoding),
        (&of.correlation_id, BasicProperties::with_correlation_id),
        (&of.reply_to, BasicProperties::with_reply_to),
        (&of.kind, BasicProperties::with_type),
    ];
    for (text, set) in texts {
        let text = text.as_deref().map(ShortString::try_new);
        if let Some(Ok(text)) = text {
            properties = set(properties, text);
        }
    }
    properties
}
