//! Whatever comes, and whatever can be said.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lapin::BasicProperties;
use posthaste_core::Timestamp;
use posthaste_core::message::{Failure, HeaderValue, MessageId, Properties};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::{RetryMessage, decode_json, decode_protobuf, incoming, own_queues};
use crate::rabbitmq::retry_message::decode;

fn a_text() -> impl Strategy<Value = Option<String>> {
    option::of("[^\0]{1,60}")
}

prop_compose! {
    fn any_properties()(
        content_type in a_text(),
        content_encoding in a_text(),
        correlation_id in a_text(),
        reply_to in a_text(),
        kind in a_text(),
        priority in any::<Option<u8>>(),
        headers in btree_map("[a-z]{1,9}", any::<String>().prop_map(HeaderValue::Text), 0..5),
    ) -> Properties {
        Properties { content_type, content_encoding, correlation_id, reply_to, kind, priority, headers }
    }
}

prop_compose! {
    pub(super) fn any_failure()(
        id in any::<u128>(),
        payload in vec(any::<u8>(), 0..200),
        original_queue in "[^\0]{1,60}",
        error_reason in "[^\0]{0,60}",
        retry_count in 0..=i32::MAX as u32,
        max_retries in option::of(1..=i32::MAX as u32),
        not_before in option::of(1..=Timestamp::MAX.as_millisecond()),
        properties in any_properties(),
    ) -> Failure {
        Failure {
            message_id: MessageId(Uuid::from_u128(id)),
            payload: payload.into(),
            original_queue,
            error_reason,
            retry_count,
            max_retries,
            not_before: not_before.map(|at| Timestamp::from_millisecond(at).unwrap()),
            properties,
        }
    }
}

pub(super) fn message_of(failure: &Failure) -> RetryMessage {
    let properties = failure.properties.clone();
    let text = |name: &String| properties.text(name).unwrap_or_default().to_owned();
    let names = properties.headers.keys();
    RetryMessage {
        message_id: failure.message_id.to_string(),
        original_payload: failure.payload.clone(),
        original_queue: failure.original_queue.clone(),
        error_reason: failure.error_reason.clone(),
        retry_count: failure.retry_count as i32,
        max_retries: failure.max_retries.unwrap_or(0) as i32,
        next_retry_at_ms: failure.not_before.map_or(0, |at| at.as_millisecond()),
        headers: names.map(|name| (name.clone(), text(name))).collect(),
        content_type: properties.content_type,
        content_encoding: properties.content_encoding,
        correlation_id: properties.correlation_id,
        reply_to: properties.reply_to,
        r#type: properties.kind,
        priority: properties.priority.map(u32::from),
    }
}

fn json_of(message: &RetryMessage) -> String {
    let json = json!({
        "message_id": message.message_id,
        "original_payload": BASE64_STANDARD.encode(&message.original_payload),
        "original_queue": message.original_queue,
        "error_reason": message.error_reason,
        "retry_count": message.retry_count,
        "max_retries": message.max_retries,
        "next_retry_at_ms": message.next_retry_at_ms.to_string(),
        "headers": message.headers,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "type": message.r#type,
        "priority": message.priority,
    });
    json.to_string()
}

proptest! {
    #[test]
    fn whatever_was_said_is_read(failure in any_failure()) {
        let message = message_of(&failure);
        let decoded = decode_protobuf(&message).map(|received| received.failure);
        prop_assert_eq!(decoded, Ok(failure.clone()));
        let decoded = decode_json(&json_of(&message)).map(|received| received.failure);
        prop_assert_eq!(decoded, Ok(failure));
    }

    #[test]
    fn whatever_comes_is_read_or_refused(
        body in vec(any::<u8>(), 0..300),
        is_json in any::<bool>(),
    ) {
        let content_type = if is_json { "application/json" } else { "" };
        let properties = BasicProperties::default().with_content_type(content_type.into());
        let _ = decode(&incoming(body, properties), &own_queues());
    }

    #[test]
    fn a_message_that_was_damaged_is_read_or_refused(
        failure in any_failure(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        use prost::Message as _;
        let mut body = message_of(&failure).encode_to_vec();
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode(&incoming(body, BasicProperties::default()), &own_queues());
    }
}
