//! What is handed in to the message lane: in any form, broken, and more than once.

use jiff::Timestamp;
use lapin::BasicProperties;
use prost::Message as _;
use serde_json::json;
use uuid::Uuid;

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, acknowledged_all, assert_copy, duplicates, hand_in, hand_in_with,
    patient, quick, start_lane, take_one,
};
use crate::support::{eventually, metric, verify};

on_both_stores! {
    json_is_as_good_as_protobuf,
    what_cannot_be_read_goes_to_review_as_it_came,
    a_moment_in_the_message_only_makes_the_wait_longer,
    a_duplicate_of_a_message_that_waits_changes_nothing,
    a_later_failure_takes_the_place_of_one_that_waits,
    a_delivery_that_comes_again_after_the_retry_changes_nothing,
    an_equal_failure_after_the_retry_is_a_new_one,
}

async fn json_is_as_good_as_protobuf(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(quick(backend)).await;
    let id = Uuid::now_v7().to_string();
    let message = json!({
        "message_id": id,
        "originalPayload": "AP8K",
        "original_queue": queue,
        "error_reason": "it was \"busy\"",
        "retryCount": 1,
        "max_retries": 2,
        "content_type": "application/octet-stream",
        "headers": {"tenant": "a"},
        "of_a_later_version": {"x": [1]},
    });
    let queues = backend.queues();
    let properties = BasicProperties::default();
    let properties = properties.with_content_type("application/json; charset=utf-8".into());
    queues
        .publish_with(
            &queues.messages(),
            message.to_string().as_bytes(),
            properties,
        )
        .await;

    let copy = take_one(backend, &queue).await;

    assert_eq!(copy.body, [0x00, 0xff, b'\n']);
    assert_eq!(
        copy.content_type.as_deref(),
        Some("application/octet-stream")
    );
    assert_eq!(copy.number("x-retry-count"), Some(2));
    for (name, value) in [
        ("tenant", "a"),
        ("x-message-id", &id),
        ("x-error-reason", "it was \"busy\""),
        ("x-original-queue", &queue),
    ] {
        assert_eq!(copy.headers[name], value);
    }
    let row = backend.until_message_is(&id, "retried").await;
    assert_eq!((row.retry_count, row.max_retries), (2, 2));
    verify(&lane).await;
}

async fn what_cannot_be_read_goes_to_review_as_it_came(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(quick(backend)).await;
    let queues = backend.queues();
    let with = |change: fn(&mut posthaste_broker::RetryMessage)| {
        let mut failure = a_failure(&queue);
        change(&mut failure);
        failure.encode_to_vec()
    };
    let mut to_us = a_failure(&queues.send());
    to_us.original_queue = queues.send();
    let bodies = [
        (
            b"not protobuf \xff".to_vec(),
            "not a RetryMessage in protobuf",
        ),
        (Vec::new(), "message_id is missing"),
        (
            with(|f| f.message_id = "4711".into()),
            "message_id is not a UUID",
        ),
        (
            with(|f| f.original_queue.clear()),
            "original_queue is missing",
        ),
        (with(|f| f.retry_count = -1), "retry_count is -1"),
        (to_us.encode_to_vec(), "which belongs to Posthaste"),
    ];
    for (number, (body, reason)) in (1..).zip(&bodies) {
        let properties = BasicProperties::default().with_content_type("text/x-mine".into());
        queues
            .publish_with(&queues.messages(), body, properties)
            .await;

        let aside = take_one(backend, &queues.review()).await;

        assert_eq!(&aside.body, body, "{reason}");
        assert_eq!(aside.content_type.as_deref(), Some("text/x-mine"));
        let said = &aside.headers["x-error-reason"];
        assert!(said.contains(reason), "{said}");
        assert!(aside.is_persistent);
        let undecodable = async || metric(&lane, "posthaste_messages_undecodable_total").await;
        eventually("it is counted", async || {
            undecodable().await == f64::from(number)
        })
        .await;
    }
    let reason = "not a JSON object";
    let json = BasicProperties::default().with_content_type("application/json".into());
    queues.publish_with(&queues.messages(), b"{", json).await;
    let aside = take_one(backend, &queues.review()).await;
    let said = &aside.headers["x-error-reason"];
    assert!(aside.body == b"{" && said.contains(reason), "{said}");

    assert_eq!(backend.count_messages().await, 0);
    assert!(acknowledged_all(&mut lane, backend).await);
    verify(&lane).await;
}

async fn a_moment_in_the_message_only_makes_the_wait_longer(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(quick(backend)).await;
    let in_an_hour = Timestamp::now().as_millisecond() + 3_600_000;
    let mut late = a_failure(&queue);
    late.next_retry_at_ms = in_an_hour;
    let mut early = a_failure(&queue);
    early.next_retry_at_ms = 1;
    for failure in [&late, &early] {
        hand_in(backend, failure).await;
    }

    assert_copy(&take_one(backend, &queue).await, &early, 1);
    let row = backend.until_message_is(&early.message_id, "retried").await;
    assert_eq!(row.delay().as_millis(), 100);
    let row = backend.until_message_is(&late.message_id, "pending").await;
    assert_eq!(row.next_retry_at.as_millisecond(), in_an_hour);
    verify(&lane).await;
}

async fn a_duplicate_of_a_message_that_waits_changes_nothing(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(patient(backend)).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;
    let before = backend
        .until_message_is(&failure.message_id, "pending")
        .await;

    let mut other = failure.clone();
    other.error_reason = "something else".into();
    for failure in [&failure, &other] {
        hand_in(backend, failure).await;
    }

    eventually("both are ignored", async || duplicates(&lane).await == 2.0).await;
    let after = backend.find_message(&failure.message_id).await;
    assert_eq!(after, Some(before));
    assert_eq!(backend.count_messages().await, 1);
    assert!(acknowledged_all(&mut lane, backend).await);
    verify(&lane).await;
}

async fn a_later_failure_takes_the_place_of_one_that_waits(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;
    backend
        .until_message_is(&failure.message_id, "pending")
        .await;

    let mut later = failure.clone();
    later.retry_count = 2;
    later.error_reason = "something else".into();
    later.original_payload = b"another".to_vec().into();
    hand_in(backend, &later).await;

    let id = &failure.message_id;
    let row = backend.until_message(id, |row| row.retry_count == 2).await;
    assert_eq!((row.status.as_str(), row.repeats), ("pending", 0));
    assert_eq!(row.error_reason, "something else");
    assert_eq!(row.payload, b"another");
    assert_eq!(duplicates(&lane).await, 0.0);
    verify(&lane).await;
}

/// The AMQP message of a handler that says nothing about each failure.
fn nothing() -> BasicProperties {
    BasicProperties::default()
}

async fn a_delivery_that_comes_again_after_the_retry_changes_nothing(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(quick(backend)).await;
    let failure = a_failure(&queue);
    hand_in_with(backend, &failure, nothing()).await;
    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let before = backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    assert!(acknowledged_all(&mut lane, backend).await);

    hand_in_with(backend, &failure, nothing()).await;
    backend
        .queues()
        .redeliver(&backend.queues().messages())
        .await;
    lane.restart(&[]).await;

    eventually("it is ignored", async || duplicates(&lane).await == 1.0).await;
    let after = backend.find_message(&failure.message_id).await;
    assert_eq!(after, Some(before));
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0);
    verify(&lane).await;
}

async fn an_equal_failure_after_the_retry_is_a_new_one(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(quick(backend)).await;
    let failure = a_failure(&queue);
    for retry_count in 1..=3 {
        hand_in_with(backend, &failure, nothing()).await;
        assert_copy(&take_one(backend, &queue).await, &failure, retry_count);
        let id = &failure.message_id;
        let row = backend.until_message_is(id, "retried").await;
        assert_eq!((row.retry_count, row.repeats), (retry_count, 0));
    }
    assert_eq!(backend.count_messages().await, 1);
    assert_eq!(duplicates(&lane).await, 0.0);
    verify(&lane).await;
}
