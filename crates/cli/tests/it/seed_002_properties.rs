//! Seed 002: a message comes back as it was, for whoever reads it.

use serde_json::{Value, json};

use crate::backend::{Backend, on_both_stores};
use crate::messages_python::{Handler, base64, fields, id_of};
use crate::messages_support::{a_service, quick, start_lane};
use crate::support::verify;

on_both_stores! {
    what_the_message_says_about_the_original_comes_back,
    what_is_not_said_is_taken_from_the_amqp_message,
    fields_of_a_later_version_are_ignored,
}

/// Hands in one message and gives the copy that comes back.
async fn copy_of(backend: &Backend, entry: Value) -> Value {
    let queue = entry["message"]["original_queue"].as_str().unwrap();
    let (queue, id) = (queue.to_owned(), id_of(&entry["message"]).to_owned());
    let lane = start_lane(quick(backend)).await;
    let handler = Handler(backend.queues());
    handler.hand_in_entries(vec![entry]).await;
    let copy = handler.take(&queue, 1).await.remove(0);
    let row = backend.until_message_is(&id, "retried").await;
    assert_eq!(row.retry_count, 1);
    verify(&lane).await;
    copy
}

/// Everything that a message says about itself, besides its headers.
fn said(content_type: &str, headers: Value) -> Value {
    json!({
        "content_type": content_type,
        "content_encoding": "gzip",
        "correlation_id": "correlation 1",
        "priority": 7,
        "reply_to": "answers",
        "type": "order.created",
        "headers": headers,
    })
}

/// The copy is so, and has these headers besides ours.
fn assert_says(copy: &Value, message: &Value, mut expected: Value) {
    expected["headers"]["x-retry-count"] = json!(1);
    expected["headers"]["x-message-id"] = message["message_id"].clone();
    expected["headers"]["x-error-reason"] = message["error_reason"].clone();
    expected["headers"]["x-original-queue"] = message["original_queue"].clone();
    expected["message_id"] = message["message_id"].clone();
    expected["payload"] = message["original_payload"].clone();
    expected["delivery_mode"] = json!(2);
    assert_eq!(copy, &expected);
}

async fn what_the_message_says_about_the_original_comes_back(backend: &Backend) {
    let mut message = fields(&a_service(backend).await, b"{}");
    let original = said(
        "application/json",
        json!({"tenant": "a", "empty": "", "ü": "ö"}),
    );
    let of_message = message.as_object_mut().unwrap();
    of_message.extend(original.as_object().unwrap().clone());
    // The message around it speaks of itself.
    let around = json!({
        "content_type": "application/x-protobuf",
        "content_encoding": "identity",
        "correlation_id": "another",
        "priority": 1,
        "reply_to": "elsewhere",
        "type": "failure",
        "message_id": "of the failure",
        "headers": {"tenant": "b", "handler": 7, "x-original-content-type": "text/plain"},
    });
    let entry = json!({"message": message, "properties": around});

    let copy = copy_of(backend, entry).await;

    assert_says(&copy, &message, original);
}

async fn what_is_not_said_is_taken_from_the_amqp_message(backend: &Backend) {
    let message = fields(&a_service(backend).await, b"<order/>");
    let headers = json!({
        "tenant": "a",
        "attempt": 7,
        "large": 1_i64 << 40,
        "yes": true,
        "nothing": null,
        "nested": {"list": [1, "b", false]},
    });
    let original = said("application/xml", headers.clone());
    let mut around = original.clone();
    around["content_type"] = json!("application/x-protobuf");
    around["content_encoding"] = json!("identity");
    around["message_id"] = json!("of the failure");
    for (name, value) in [
        ("x-original-content-type", json!("application/xml")),
        ("x-original-content-encoding", json!("gzip")),
        // Of an earlier copy: not true any more.
        ("x-retry-count", json!(99)),
        ("x-error-reason", json!("another one")),
        // RabbitMQ would send a copy there.
        ("CC", json!([backend.queues().of_service("copies")])),
    ] {
        around["headers"][name] = value;
    }
    let entry = json!({"message": message, "properties": around});

    let copy = copy_of(backend, entry).await;

    assert_says(&copy, &message, original);
}

async fn fields_of_a_later_version_are_ignored(backend: &Backend) {
    let message = fields(&a_service(backend).await, b"{}");
    // Field 1000 is a number, field 1001 a text.
    let unknown = [0xc0, 0x3e, 7, 0xca, 0x3e, 2, b'h', b'i'];
    let entry = json!({"message": message, "raw": base64(&unknown)});

    let copy = copy_of(backend, entry).await;

    assert_eq!(copy["payload"], message["original_payload"]);
    assert_eq!(copy["headers"]["x-retry-count"], 1);
}
