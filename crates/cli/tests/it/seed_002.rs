//! Seed 002, the retry scheduler of messages: its acceptance criteria, one by one, seen by a client
//! that is not ours.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::{Backend, on_both_stores};
use crate::messages_python::{Handler, fields, id_of};
use crate::messages_support::{
    a_service, acknowledged_all, patient, quick, start_lane, until_metric,
};
use crate::support::{metric, run, text, verify};

on_both_stores! {
    messages_are_consumed_and_kept_and_outlive_kill_9,
    the_delay_doubles_up_to_the_cap_and_has_jitter,
    a_message_comes_back_byte_for_byte_after_its_delay,
    a_handler_that_echoes_the_count_meets_three_retries_and_then_manual_review,
    a_handler_that_never_counts_meets_three_retries_and_then_manual_review,
}

async fn messages_are_consumed_and_kept_and_outlive_kill_9(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(patient(backend)).await;
    let handler = Handler(backend.queues());
    let messages: Vec<_> = (0..20)
        .map(|n| fields(&queue, format!("order {n}").as_bytes()))
        .collect();

    handler.hand_in(&messages).await;

    for (n, message) in messages.iter().enumerate() {
        let row = backend.until_message_is(id_of(message), "pending").await;
        assert_eq!(row.payload, format!("order {n}").as_bytes());
        assert_eq!(row.original_queue, queue);
        assert_eq!(row.error_reason, "upstream said 503");
        assert_eq!((row.retry_count, row.max_retries), (0, 3));
        assert_eq!(row.delay(), Duration::from_secs(3600));
    }
    assert_eq!(metric(&lane, "retry_queue_depth").await, 20.0);
    assert_eq!(backend.queues().count(&queue).await, 0, "not yet");

    lane.kill9();
    assert_eq!(backend.make_messages_due().await, 20);
    lane.restart(&[]).await;

    let copies = handler.take(&queue, 20).await;
    let ids = |of: &[Value], id: fn(&Value) -> &Value| -> BTreeSet<String> {
        of.iter().map(|one| id(one).to_string()).collect()
    };
    assert_eq!(
        ids(&copies, |copy| &copy["headers"]["x-message-id"]),
        ids(&messages, |message| &message["message_id"])
    );
    for message in &messages {
        let row = backend.until_message_is(id_of(message), "retried").await;
        assert_eq!((row.retry_count, row.repeats), (1, 0));
    }
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0, "each came once");
    verify(&lane).await;
}

/// As the seed says, without any setting.
async fn the_delay_doubles_up_to_the_cap_and_has_jitter(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(backend.posthaste()).await;
    let counts = [0, 1, 2, 3, 4, 5, 6, 30];
    let mut messages = Vec::new();
    for retry_count in counts.iter().chain(&[0; 40]) {
        let mut message = fields(&queue, b"x");
        message["retry_count"] = json!(retry_count);
        message["max_retries"] = json!(100);
        messages.push(message);
    }

    Handler(backend.queues()).hand_in(&messages).await;

    let mut jitters = BTreeSet::new();
    for message in &messages {
        let row = backend.until_message(id_of(message), |_| true).await;
        let count = message["retry_count"].as_u64().unwrap();
        let least = Duration::from_secs(2 << count.min(20)).min(Duration::from_secs(60));
        let jitter = row.delay().checked_sub(least);
        let jitter = jitter.unwrap_or_else(|| panic!("too early: {row:?}"));
        assert!(jitter <= Duration::from_secs(1), "{jitter:?} {row:?}");
        jitters.insert(jitter);
    }
    assert!(jitters.len() > messages.len() / 2, "{jitters:?}");
    let half = Duration::from_millis(500);
    assert!(jitters.first().unwrap() < &half && jitters.last().unwrap() > &half);
    verify(&lane).await;
}

async fn a_message_comes_back_byte_for_byte_after_its_delay(backend: &Backend) {
    let queue = a_service(backend).await;
    let delay = Duration::from_secs(1);
    let lane = quick(backend).env("BASE_DELAY_MS", "1000");
    let mut lane = start_lane(lane.env("MAX_DELAY_MS", "1000")).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = every_byte.repeat(4096);
    assert_eq!(long.len(), 1 << 20);
    let messages = [&b""[..], &every_byte, &long].map(|payload| fields(&queue, payload));

    let handler = Handler(backend.queues());
    handler.hand_in(&messages).await;

    let copies = handler.take(&queue, messages.len()).await;
    for message in &messages {
        let is_copy = |copy: &&Value| copy["message_id"] == message["message_id"];
        let copy = copies.iter().find(is_copy).unwrap();
        let is_equal = copy["payload"] == message["original_payload"];
        assert!(is_equal, "other bytes");
        assert_eq!(copy["delivery_mode"], 2, "it is persistent");
        let expected = json!({
            "x-retry-count": 1,
            "x-message-id": message["message_id"],
            "x-error-reason": "upstream said 503",
            "x-original-queue": queue,
        });
        assert_eq!(copy["headers"], expected);
        let row = backend.until_message_is(id_of(message), "retried").await;
        assert_eq!((row.retry_count, row.delay()), (1, delay));
        // Our idea of the database's time may lag behind a little.
        let earliest = row.next_retry_at - delay / 2;
        assert!(row.finished_at.unwrap() > earliest, "{row:?}");
    }
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0, "each came once");
    verify(&lane).await;
}

async fn a_handler_that_echoes_the_count_meets_three_retries_and_then_manual_review(
    backend: &Backend,
) {
    fails_until_it_is_in_review(backend, true).await;
}

async fn a_handler_that_never_counts_meets_three_retries_and_then_manual_review(backend: &Backend) {
    fails_until_it_is_in_review(backend, false).await;
}

async fn fails_until_it_is_in_review(backend: &Backend, counts: bool) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(quick(backend)).await;
    let message = fields(&queue, b"it never works");

    let handler = Handler(backend.queues());
    let (copies, review) = handler.handle(&message, counts).await;

    for (n, copy) in copies.iter().enumerate() {
        assert_eq!(copy["headers"]["x-retry-count"], n + 1);
        assert_eq!(copy["headers"]["x-message-id"], message["message_id"]);
        assert_eq!(copy["payload"], message["original_payload"]);
    }
    assert_eq!(copies.len(), 3);
    let reason = "MaxRetriesExceeded: 3 of 3 retries were made";
    let expected = json!({
        "x-retry-count": 3,
        "x-message-id": message["message_id"],
        "x-error-reason": "upstream said 503",
        "x-original-queue": queue,
        "x-review-reason": reason,
    });
    assert_eq!(review["headers"], expected);
    assert_eq!(review["payload"], message["original_payload"]);
    let row = backend.until_message_is(id_of(&message), "failed").await;
    assert_eq!((row.retry_count, row.repeats), (3, 0));
    assert_eq!(row.last_error.as_deref(), Some(reason));

    for (name, labels, value) in [
        ("retries_scheduled_total", "", 4.0),
        ("retries_executed_total", ",status=\"success\"", 3.0),
        ("retries_exhausted_total", "", 1.0),
    ] {
        let name = format!(r#"{name}{{queue="{queue}"{labels}}}"#);
        until_metric(&lane, &name, value).await;
    }
    assert_eq!(metric(&lane, "retry_queue_depth").await, 0.0);
    assert!(acknowledged_all(&mut lane, backend).await);
    for empty in [&queue, &backend.queues().review()] {
        assert_eq!(backend.queues().count(empty).await, 0);
    }
    verify(&lane).await;
}

#[tokio::test]
async fn the_table_is_the_one_of_the_seed() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let _lane = start_lane(backend.posthaste()).await;
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
               WHERE table_schema = current_schema() AND table_name = 'retry_queue'";
    let client = backend.database().beside().await;
    let rows = client.query(sql, &[]).await.unwrap();
    let columns: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (name, kind) in [
        ("id", "bigint"),
        ("message_id", "uuid"),
        ("original_payload", "bytea"),
        ("original_queue", "character varying"),
        ("error_reason", "text"),
        ("retry_count", "integer"),
        ("max_retries", "integer"),
        ("next_retry_at", "timestamp with time zone"),
        ("created_at", "timestamp with time zone"),
        ("status", "text"),
    ] {
        let column = (name.to_owned(), kind.to_owned());
        assert!(columns.contains(&column), "{name} {kind}: {columns:?}");
    }
    let sql = "SELECT indexdef FROM pg_indexes
               WHERE schemaname = current_schema() AND tablename = 'retry_queue'";
    let indexes: Vec<String> = client
        .query(sql, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    for part in [
        "UNIQUE INDEX retry_queue_message_id_key",
        "INDEX idx_retry_next_retry",
    ] {
        assert!(
            indexes.iter().any(|index| index.contains(part)),
            "{indexes:?}"
        );
    }
}

#[tokio::test]
async fn the_metrics_count_what_waits_and_what_was_not_taken() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let lane = start_lane(patient(&backend)).await;
    let metrics = text(&lane, "/metrics").await;
    for name in [
        "retries_scheduled_total",
        "retries_executed_total",
        "retries_exhausted_total",
        "retry_queue_depth",
    ] {
        let is_there = metrics.lines().any(|line| line.starts_with(name));
        assert!(is_there, "{name} is not there from the start: {metrics}");
    }
    let missing = backend.queues().of_service("missing");
    let handler = Handler(backend.queues());
    let waiting: Vec<_> = (0..3).map(|_| fields(&queue, b"x")).collect();
    handler.hand_in(&waiting).await;
    let lost = fields(&missing, b"x");
    handler.hand_in(std::slice::from_ref(&lost)).await;
    until_metric(&lane, "retry_queue_depth", 4.0).await;
    for (queue, count) in [(&queue, 3.0), (&missing, 1.0)] {
        let scheduled = format!(r#"retries_scheduled_total{{queue="{queue}"}}"#);
        until_metric(&lane, &scheduled, count).await;
    }

    let output = run(&lane, &["messages", "retry", id_of(&lost)]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);

    let failed = format!(r#"retries_executed_total{{queue="{missing}",status="failed"}}"#);
    until_metric(&lane, &failed, 1.0).await;
    backend
        .until_message(id_of(&lost), |row| row.publish_failures == 1)
        .await;
    let depth = metric(&lane, "retry_queue_depth").await;
    assert_eq!(depth, 4.0, "it still waits");
    verify(&lane).await;
}
