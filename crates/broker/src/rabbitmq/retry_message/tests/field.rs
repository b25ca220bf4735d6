//! The fields and their rules.

use lapin::BasicProperties;
use prost::Message as _;

use super::{ID, a_message, decode_json, decode_protobuf, incoming, own_queues};
use crate::rabbitmq::retry_message::{RetryMessage, decode};

#[test]
fn the_least_that_can_be_said_is_enough() {
    let failure = decode_protobuf(&a_message()).unwrap().failure;
    assert_eq!(failure.message_id.to_string(), ID);
    assert_eq!(&failure.payload[..], b"\x00payload\xff");
    assert_eq!(failure.original_queue, "orders");
    assert_eq!(failure.error_reason, "");
    assert_eq!(failure.retry_count, 0);
    assert_eq!(failure.max_retries, None);
    assert_eq!(failure.not_before, None);
    assert_eq!(failure.properties, Default::default());
}

#[test]
fn everything_that_can_be_said_is_read() {
    let message = RetryMessage {
        error_reason: "timeout".into(),
        retry_count: 2,
        max_retries: 5,
        next_retry_at_ms: 4_102_444_800_123,
        ..a_message()
    };
    let failure = decode_protobuf(&message).unwrap().failure;
    assert_eq!(failure.error_reason, "timeout");
    assert_eq!(failure.retry_count, 2);
    assert_eq!(failure.max_retries, Some(5));
    let moment = "2100-01-01T00:00:00.123Z".parse().unwrap();
    assert_eq!(failure.not_before, Some(moment));
}

#[test]
fn json_says_the_same_under_both_names_of_a_field() {
    let expected = decode_protobuf(&RetryMessage {
        error_reason: "ü".into(),
        retry_count: 2,
        next_retry_at_ms: 4_102_444_800_123,
        correlation_id: Some("c".into()),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        ..a_message()
    });
    let expected = expected.unwrap().failure;
    let snake = format!(
        r#"{{"message_id":"{ID}","original_payload":"AHBheWxvYWT/","original_queue":"orders",
            "error_reason":"ü","retry_count":2,"max_retries":null,"next_retry_at_ms":4102444800123,
            "correlation_id":"c","headers":{{"a":"b"}},"unknown":[{{}}]}}"#
    );
    let camel = format!(
        r#"{{"messageId":"{ID}","originalPayload":"AHBheWxvYWT_","originalQueue":"orders",
            "errorReason":"ü","retryCount":"2","maxRetries":0,"nextRetryAtMs":"4102444800123",
            "correlationId":"c","headers":{{"a":"b"}}}}"#
    );
    for json in [snake, camel] {
        assert_eq!(decode_json(&json).unwrap().failure, expected, "{json}");
    }
}

#[test]
fn json_is_known_by_its_content_type() {
    let json = format!(r#"{{"message_id":"{ID}","original_queue":"orders"}}"#);
    for (content_type, is_json) in [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        (" application/json ;", true),
        ("application/jsonl", false),
        ("application/x-protobuf", false),
        ("", false),
    ] {
        let properties = BasicProperties::default().with_content_type(content_type.into());
        let decoded = decode(&incoming(json.clone(), properties), &own_queues());
        assert_eq!(decoded.is_ok(), is_json, "{content_type}");
    }
}

#[test]
fn unknown_fields_are_tolerated() {
    let mut body = a_message().encode_to_vec();
    // Number 99, a text.
    body.extend([0x9a, 0x06, 3, b'n', b'e', b'w']);
    let decoded = decode(&incoming(body, BasicProperties::default()), &own_queues());
    assert_eq!(decoded.unwrap().failure.original_queue, "orders");
}

/// Changes a message for the worse.
type Change = fn(&mut RetryMessage);

#[test]
fn what_breaks_a_rule_is_refused_with_the_field_and_the_fix() {
    let cases: &[(Change, &str)] = &[
        (|m| m.message_id.clear(), "message_id is missing; give"),
        (
            |m| m.message_id = "order-7".into(),
            "message_id is not a UUID; give each message a UUID",
        ),
        (
            |m| m.original_queue.clear(),
            "original_queue is missing; name the queue",
        ),
        (
            |m| m.original_queue = "q".repeat(256),
            "original_queue has more than 255 bytes; name",
        ),
        (
            |m| m.original_queue = "a\0b".into(),
            "original_queue has a NUL in it; name",
        ),
        (
            |m| m.original_queue = "amq.rabbitmq.reply-to.x".into(),
            "original_queue belongs to RabbitMQ itself; name",
        ),
        (
            |m| m.original_queue = "retry.scheduled".into(),
            "original_queue is `retry.scheduled`, which belongs to Posthaste; name",
        ),
        (|m| m.retry_count = -1, "retry_count is -1; count from 0"),
        (|m| m.max_retries = -7, "max_retries is -7; count from 0"),
        (
            |m| m.next_retry_at_ms = i64::MAX,
            "next_retry_at_ms is 9223372036854775807; give milliseconds since 1970",
        ),
        (
            |m| m.priority = Some(256),
            "priority is 256; the highest is 255",
        ),
        (
            |m| m.correlation_id = Some("c".repeat(256)),
            "correlation_id has more than 255 bytes",
        ),
        (
            |m| m.r#type = Some("t".repeat(256)),
            "type has more than 255 bytes",
        ),
        (
            |m| m.reply_to = Some("amq.rabbitmq.reply-to".into()),
            "reply_to is `amq.rabbitmq.reply-to`; give the address",
        ),
        (
            |m| m.headers = [("n".repeat(256), String::new())].into(),
            "headers have a name of more than 255 bytes",
        ),
        (
            |m| m.headers = [("h".to_owned(), "v".repeat(120_000))].into(),
            "headers take 120013 bytes; RabbitMQ can carry 114688",
        ),
    ];
    for (change, reason) in cases {
        let mut message = a_message();
        change(&mut message);
        let error = decode_protobuf(&message).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn the_most_that_the_rules_allow_is_read() {
    let message = RetryMessage {
        message_id: ID.replace('-', "").to_uppercase(),
        original_queue: "amq.gen-".to_owned() + &"q".repeat(247),
        retry_count: i32::MAX,
        max_retries: i32::MAX,
        next_retry_at_ms: -1,
        priority: Some(255),
        headers: [("n".repeat(255), "v".repeat(110_000))].into(),
        ..a_message()
    };
    let failure = decode_protobuf(&message).unwrap().failure;
    assert_eq!(failure.message_id.to_string(), ID);
    assert_eq!(failure.original_queue, message.original_queue);
    assert_eq!(failure.max_retries, Some(i32::MAX as u32));
    assert_eq!(failure.not_before, None);
    assert_eq!(failure.properties.priority, Some(255));
    assert_eq!(failure.properties.headers.len(), 1);
}

#[test]
fn json_that_breaks_a_rule_is_refused_with_the_field() {
    for (json, reason) in [
        ("", "not a JSON object (EOF"),
        ("[]", "not a JSON object (invalid type"),
        (r#"{"message_id":7}"#, "message_id must be a text"),
        (
            r#"{"original_payload":"no base64"}"#,
            "original_payload must be in base64",
        ),
        (
            r#"{"retry_count":1.5}"#,
            "retry_count must be a whole number",
        ),
        (
            r#"{"retryCount":"one"}"#,
            "retry_count must be a whole number",
        ),
        (
            r#"{"max_retries":3000000000}"#,
            "max_retries is out of range: 3000000000",
        ),
        (r#"{"priority":-1}"#, "priority is out of range: -1"),
        (
            r#"{"headers":{"a":1}}"#,
            "headers must be an object with texts in it",
        ),
        (
            r#"{"headers":[]}"#,
            "headers must be an object with texts in it",
        ),
        ("{}", "message_id is missing"),
    ] {
        let error = decode_json(json).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    let deep = "[".repeat(100_000);
    assert!(decode_json(&deep).is_err());
}

#[test]
fn whole_numbers_may_be_written_as_floats() {
    let json = format!(
        r#"{{"message_id":"{ID}","original_queue":"orders","retry_count":2.0,
            "next_retry_at_ms":4.102444800123e12}}"#
    );
    let failure = decode_json(&json).unwrap().failure;
    assert_eq!(failure.retry_count, 2);
    assert!(failure.not_before.is_some());
}

#[test]
fn what_is_no_protobuf_says_so_and_what_to_do_about_json() {
    let properties = BasicProperties::default;
    let decode = |body: &'static [u8]| decode(&incoming(body, properties()), &own_queues());
    let error = decode(b"{\"message_id\":1}").unwrap_err().to_string();
    assert!(
        error.starts_with("not a RetryMessage in protobuf ("),
        "{error}"
    );
    assert!(error.ends_with("set the content type application/json"));
    // An empty body is protobuf for a message that says nothing.
    let error = decode(b"").unwrap_err().to_string();
    assert!(error.starts_with("message_id is missing"), "{error}");
}

#[test]
fn a_reason_has_no_nul_and_is_not_endless() {
    let reason = |error_reason: String| {
        let message = RetryMessage {
            error_reason,
            ..a_message()
        };
        decode_protobuf(&message).unwrap().failure.error_reason
    };
    assert_eq!(reason("a\0b".into()), "a\u{fffd}b");
    assert_eq!(reason("r".repeat(8192)), "r".repeat(8192));
    let cut = reason("ü".repeat(5000));
    assert_eq!(cut, "ü".repeat(4094) + "…");
}
