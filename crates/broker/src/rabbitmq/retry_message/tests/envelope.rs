//! The AMQP message around a `RetryMessage`.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use posthaste_core::message::{HeaderValue, Headers, Properties};

use super::{a_message, as_protobuf, own_queues, table, text};
use crate::rabbitmq::retry_message::{RetryMessage, decode};

fn properties_of(message: &RetryMessage, envelope: BasicProperties) -> Properties {
    let decoded = decode(&as_protobuf(message, envelope), &own_queues());
    decoded.unwrap().failure.properties
}

/// An envelope that says everything.
fn an_envelope() -> BasicProperties {
    let headers = table([
        ("x-original-content-type", text("text/plain")),
        ("x-original-content-encoding", text("gzip")),
        ("tenant", AMQPValue::ShortShortInt(7)),
        ("traceparent", text("00-around-01")),
        ("x-delivery-count", AMQPValue::LongLongInt(3)),
        ("CC", AMQPValue::FieldArray(vec![text("copy")].into())),
        ("BCC", AMQPValue::FieldArray(vec![text("copy")].into())),
    ]);
    BasicProperties::default()
        .with_content_type("application/x-protobuf".into())
        .with_content_encoding("identity".into())
        .with_correlation_id("around".into())
        .with_reply_to("answers".into())
        .with_type("order".into())
        .with_priority(4)
        .with_headers(headers)
}

fn headers<const N: usize>(headers: [(&str, HeaderValue); N]) -> Headers {
    let owned = |(name, value): (&str, HeaderValue)| (name.to_owned(), value);
    headers.into_iter().map(owned).collect()
}

#[test]
fn what_the_message_does_not_say_the_envelope_says() {
    let expected = Properties {
        content_type: Some("text/plain".into()),
        content_encoding: Some("gzip".into()),
        correlation_id: Some("around".into()),
        reply_to: Some("answers".into()),
        kind: Some("order".into()),
        priority: Some(4),
        headers: headers([
            ("tenant", HeaderValue::Integer(7)),
            ("traceparent", "00-around-01".into()),
        ]),
    };
    assert_eq!(properties_of(&a_message(), an_envelope()), expected);
    // An empty text says nothing.
    let message = RetryMessage {
        content_type: Some(String::new()),
        correlation_id: Some(String::new()),
        ..a_message()
    };
    assert_eq!(properties_of(&message, an_envelope()), expected);
}

#[test]
fn the_content_type_of_the_envelope_is_its_own() {
    let envelope = BasicProperties::default()
        .with_content_type("application/octet-stream".into())
        .with_content_encoding("br".into())
        .with_headers(table([("x-original-content-type", AMQPValue::LongInt(1))]));
    assert_eq!(properties_of(&a_message(), envelope), Properties::default());
}

#[test]
fn what_the_message_says_goes_before_the_envelope() {
    let given = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut message = RetryMessage {
        content_type: Some("application/json".into()),
        content_encoding: Some("br".into()),
        correlation_id: Some("inside".into()),
        reply_to: Some("inside answers".into()),
        r#type: Some("inside order".into()),
        priority: Some(0),
        headers: [given("own", "1"), given("CC", "copy")].into(),
        ..a_message()
    };
    let mut expected = Properties {
        content_type: Some("application/json".into()),
        content_encoding: Some("br".into()),
        correlation_id: Some("inside".into()),
        reply_to: Some("inside answers".into()),
        kind: Some("inside order".into()),
        priority: Some(0),
        // The trace goes on.
        headers: headers([("own", "1".into()), ("traceparent", "00-around-01".into())]),
    };
    assert_eq!(properties_of(&message, an_envelope()), expected);
    // Unless the message says how.
    let traceparent = given("traceparent", "00-inside-01");
    message.headers.extend([traceparent]);
    let traceparent = headers([("traceparent", "00-inside-01".into())]);
    expected.headers.extend(traceparent);
    assert_eq!(properties_of(&message, an_envelope()), expected);
}

#[test]
fn headers_without_end_are_refused() {
    let wrap = |inner, _| AMQPValue::FieldArray(vec![inner].into());
    let deep = (0..100).fold(AMQPValue::Void, wrap);
    let envelope = BasicProperties::default().with_headers(table([("deep", deep)]));
    let decoded = decode(&as_protobuf(&a_message(), envelope), &own_queues());
    let error = decoded.unwrap_err().to_string();
    assert_eq!(
        error,
        "headers are nested more than 16 deep; make them flat"
    );
}

#[test]
fn another_content_has_another_hash_and_a_redelivery_the_same() {
    let hash = |message: &RetryMessage, envelope: BasicProperties| {
        let mut incoming = as_protobuf(message, envelope);
        let hash = decode(&incoming, &own_queues()).unwrap().hash;
        incoming.redelivered = true;
        assert_eq!(decode(&incoming, &own_queues()).unwrap().hash, hash);
        hash
    };
    let plain = BasicProperties::default;
    let counted = |count| table([("x-delivery-count", AMQPValue::LongLongInt(count))]);
    let first = hash(&a_message(), plain());
    for same in [
        plain(),
        plain().with_headers(FieldTable::default()),
        plain().with_headers(counted(1)),
        plain().with_headers(counted(2)),
    ] {
        assert_eq!(hash(&a_message(), same.clone()), first, "{same:?}");
    }
    let other = RetryMessage {
        retry_count: 1,
        ..a_message()
    };
    let death = AMQPValue::FieldArray(vec![AMQPValue::FieldTable(counted(1))].into());
    let mut hashes = vec![
        first,
        hash(&other, plain()),
        hash(&a_message(), an_envelope()),
        hash(&a_message(), plain().with_timestamp(1)),
        hash(&a_message(), plain().with_timestamp(2)),
        hash(&a_message(), plain().with_message_id("m".into())),
        hash(&a_message(), plain().with_app_id("m".into())),
        hash(&a_message(), plain().with_user_id("m".into())),
        hash(
            &a_message(),
            plain().with_headers(table([("x-death", death)])),
        ),
    ];
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}
