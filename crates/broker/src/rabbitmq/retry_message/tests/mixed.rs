//! What is cut, mixed up or made up: it is read or refused by name, and what is read can be kept
//! and put back.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldTable};
use posthaste_core::message::{Failure, Properties};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Value, json};

use super::any::{any_failure, message_of};
use super::{ID, RetryMessage, RetryMessageError, decode_json, incoming, own_queues};
use crate::rabbitmq::retry_message::decode;
use crate::rabbitmq::{headers, outgoing, wire};

const FIELDS: [&str; 14] = [
    "message_id",
    "original_payload",
    "original_queue",
    "error_reason",
    "retry_count",
    "max_retries",
    "next_retry_at_ms",
    "content_type",
    "headers",
    "correlation_id",
    "priority",
    "content_encoding",
    "reply_to",
    "type",
];

/// What stores and RabbitMQ can take.
fn assert_can_be_kept(failure: &Failure) {
    let queue = &failure.original_queue;
    assert!(
        (1..=255).contains(&queue.len()) && !queue.contains('\0'),
        "{queue:?}"
    );
    assert!(
        !own_queues().contains(queue),
        "it would come round for ever"
    );
    assert!(failure.error_reason.len() <= 8 << 10 && !failure.error_reason.contains('\0'));
    assert!(failure.retry_count <= i32::MAX as u32);
    assert_ne!(failure.max_retries, Some(0));
    let sent = outgoing::properties(&failure.properties);
    assert!(wire::size_bytes(&sent) <= wire::LARGEST_BYTES);
    let written = serde_json::to_string(&failure.properties).unwrap();
    let kept: Properties = serde_json::from_str(&written).unwrap();
    assert_eq!(kept, failure.properties);
}

fn assert_refused_by_name(error: &RetryMessageError) {
    match error {
        RetryMessageError::Field { field, problem } => {
            assert!(FIELDS.contains(field) && !problem.is_empty(), "{error}");
        }
        RetryMessageError::NotProtobuf(reason) | RetryMessageError::NotJson(reason) => {
            assert!(!reason.is_empty());
        }
    }
}

/// A field of any number and any kind, mostly one of ours.
fn a_field() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![9 => 1_u32..16, 1 => 1_u32..1 << 29];
    let text = prop_oneof![
        any::<String>().prop_map(String::into_bytes),
        Just(ID.as_bytes().to_vec()),
        Just(b"orders".to_vec()),
        Just(b"retry.scheduled".to_vec()),
        "[a-z\0]{250,260}".prop_map(String::into_bytes),
        // As the headers are nested: a name and a text.
        Just(b"\x0a\x01n\x12\x01t".to_vec()),
        vec(any::<u8>(), 0..30),
    ];
    let sized = (number.clone(), text).prop_map(|(number, text)| {
        let mut field = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut field);
        encode_varint(text.len() as u64, &mut field);
        field.extend(text);
        field
    });
    let varint = prop_oneof![0_u64..300, any::<u64>()];
    let counted = (number.clone(), varint).prop_map(|(number, value)| {
        let mut field = Vec::new();
        encode_key(number, WireType::Varint, &mut field);
        encode_varint(value, &mut field);
        field
    });
    let odd = (number, 0_u8..8, vec(any::<u8>(), 0..12)).prop_map(|(number, kind, rest)| {
        let mut field = Vec::new();
        encode_varint(u64::from(number << 3) | u64::from(kind), &mut field);
        field.extend(rest);
        field
    });
    prop_oneof![6 => sized, 4 => counted, 1 => odd]
}

/// A message that is in order but for its queue, with more fields behind, or fields alone.
fn a_mixture() -> impl Strategy<Value = Vec<u8>> {
    let fields = || vec(a_field(), 0..8).prop_map(|fields| fields.concat());
    let queue = select(&["orders", "retry.scheduled", "email.dispatcher.send", "a\0b"][..]);
    let message = (any_failure(), queue, any::<bool>()).prop_map(|(failure, queue, is_bare)| {
        let mut message = message_of(&failure);
        message.original_queue = queue.to_owned();
        if is_bare {
            // As the envelope says.
            message.headers.clear();
        }
        message.encode_to_vec()
    });
    let more = prop_oneof![Just(Vec::new()), fields()];
    prop_oneof![
        1 => fields(),
        2 => (message, more).prop_map(|(message, more)| [message, more].concat()),
    ]
}

fn a_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i64..300).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(|number| Value::from(number.to_string())),
        Just(json!(ID)),
        Just(json!("orders")),
        "[A-Za-z0-9+/_=-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-z]{0,3}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn an_envelope() -> impl Strategy<Value = FieldTable> {
    let leaf = prop_oneof![
        Just(AMQPValue::Void),
        any::<bool>().prop_map(AMQPValue::Boolean),
        any::<i16>().prop_map(AMQPValue::ShortInt),
        any::<u32>().prop_map(AMQPValue::LongUInt),
        any::<i64>().prop_map(AMQPValue::LongLongInt),
        proptest::num::f32::ANY.prop_map(AMQPValue::Float),
        proptest::num::f64::ANY.prop_map(AMQPValue::Double),
        (any::<u8>(), any::<u32>())
            .prop_map(|(scale, value)| AMQPValue::DecimalValue(DecimalValue { scale, value })),
        any::<String>().prop_map(|text| AMQPValue::LongString(text.into())),
        vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::LongString(bytes.into())),
        vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::ByteArray(bytes.into())),
        any::<u64>().prop_map(AMQPValue::Timestamp),
    ];
    let value = leaf.prop_recursive(20, 40, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|list| AMQPValue::FieldArray(list.into())),
            table_of(inner).prop_map(AMQPValue::FieldTable),
        ]
    });
    table_of(value)
}

fn table_of(value: impl Strategy<Value = AMQPValue>) -> impl Strategy<Value = FieldTable> {
    let own = &[
        "x-original-content-type",
        "x-delivery-count",
        "CC",
        "traceparent",
    ][..];
    let name = prop_oneof![select(own).prop_map(str::to_owned), "\\PC{0,9}"];
    btree_map(name, value, 0..4).prop_map(|map| {
        let mut table = FieldTable::default();
        for (name, value) in map {
            table.insert(name.into(), value);
        }
        table
    })
}

proptest! {
    #[test]
    fn what_is_cut_says_less_and_nothing_else(failure in any_failure(), end in any::<Index>()) {
        let whole = message_of(&failure);
        let encoded = whole.encode_to_vec();
        let (body, rest) = encoded.split_at(end.index(encoded.len()));
        if let Ok(mut cut) = RetryMessage::decode(body) {
            prop_assert!(cut.merge(rest).is_ok());
            prop_assert_eq!(cut, whole);
        }
        let body = body.to_vec();
        match decode(&incoming(body, BasicProperties::default()), &own_queues()) {
            Ok(received) => {
                prop_assert_eq!(received.failure.message_id, failure.message_id);
                prop_assert_eq!(received.failure.original_queue, failure.original_queue);
            }
            Err(error) => assert_refused_by_name(&error),
        }
    }

    #[test]
    fn fields_of_any_kind_are_read_or_refused(
        body in a_mixture(),
        envelope in an_envelope(),
        redelivered in any::<bool>(),
    ) {
        let properties = BasicProperties::default().with_headers(envelope);
        let mut delivery = incoming(body, properties);
        delivery.redelivered = redelivered;
        match decode(&delivery, &own_queues()) {
            Ok(received) => {
                assert_can_be_kept(&received.failure);
                prop_assert_eq!(received.redelivered, redelivered);
            }
            Err(error) => assert_refused_by_name(&error),
        }
    }

    #[test]
    fn json_of_any_kind_is_read_or_refused(
        fields in btree_map(select(&FIELDS[..]), a_json(), 0..6),
        is_begun in any::<bool>(),
        end in proptest::option::of(any::<Index>()),
    ) {
        let mut json = json!(fields);
        if is_begun {
            json["message_id"] = json!(ID);
            json["original_queue"] = json!("orders");
        }
        let mut text = json.to_string();
        if let Some(end) = end {
            text.truncate(text.floor_char_boundary(end.index(text.len())));
        }
        match decode_json(&text) {
            Ok(received) => assert_can_be_kept(&received.failure),
            Err(error) => assert_refused_by_name(&error),
        }
    }

    #[test]
    fn headers_of_any_kind_come_back_as_they_were_read(table in an_envelope()) {
        if let Ok(read) = headers::read(&table) {
            prop_assert_eq!(headers::read(&headers::write(&read)), Ok(read));
        }
    }
}
