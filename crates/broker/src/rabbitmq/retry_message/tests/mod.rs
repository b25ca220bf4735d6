//! Reading what other services hand in.

mod any;
mod envelope;
mod field;
mod mixed;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use prost::Message as _;

use super::super::incoming::Incoming;
use super::{Received, RetryMessage, RetryMessageError, decode};

const ID: &str = "0198c0de-0000-7000-8000-000000000001";

fn own_queues() -> Vec<String> {
    vec!["retry.scheduled".into(), "email.dispatcher.send".into()]
}

/// A message with nothing that could be left out.
fn a_message() -> RetryMessage {
    RetryMessage {
        message_id: ID.into(),
        original_payload: Bytes::from_static(b"\x00payload\xff"),
        original_queue: "orders".into(),
        ..RetryMessage::default()
    }
}

fn incoming(body: impl Into<Bytes>, properties: BasicProperties) -> Incoming {
    Incoming {
        body: body.into(),
        properties,
        redelivered: false,
    }
}

fn as_protobuf(message: &RetryMessage, properties: BasicProperties) -> Incoming {
    incoming(message.encode_to_vec(), properties)
}

fn decode_protobuf(message: &RetryMessage) -> Result<Received, RetryMessageError> {
    let incoming = as_protobuf(message, BasicProperties::default());
    decode(&incoming, &own_queues())
}

fn decode_json(json: &str) -> Result<Received, RetryMessageError> {
    let properties = BasicProperties::default().with_content_type("application/json".into());
    decode(&incoming(json.to_owned(), properties), &own_queues())
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn table<const N: usize>(headers: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(name.into(), value);
    }
    table
}
