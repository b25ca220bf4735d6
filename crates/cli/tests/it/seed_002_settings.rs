//! Seed 002: the names of its settings work as they are.

use std::time::Duration;

use serde_json::json;

use crate::backend::Backend;
use crate::messages_python::{Handler, fields, id_of};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in, patient, quick, start_lane, take_one,
};
use crate::support::run;

#[tokio::test]
async fn the_maximum_of_retries_is_that_of_the_environment_unless_the_message_says_so() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let _lane = start_lane(quick(&backend).env("DEFAULT_MAX_RETRIES", "1")).await;
    let handler = Handler(backend.queues());
    for (max_retries, copies) in [(0, 1), (2, 2)] {
        let mut message = fields(&queue, b"x");
        message["max_retries"] = json!(max_retries);
        let (came_back, review) = handler.handle(&message, true).await;
        assert_eq!(came_back.len(), copies);
        let reason = format!("MaxRetriesExceeded: {copies} of {copies} retries were made");
        assert_eq!(review["headers"]["x-review-reason"], reason);
    }
}

#[tokio::test]
async fn the_delays_are_those_of_the_environment() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let lane = backend.posthaste().env("BASE_DELAY_MS", "700000");
    let _lane = start_lane(lane.env("MAX_DELAY_MS", "1500000")).await;
    let delays = [(0, 700), (1, 1400), (2, 1500), (3, 1500)];
    let messages = delays.map(|(retry_count, _)| {
        let mut message = fields(&queue, b"x");
        message["retry_count"] = json!(retry_count);
        message["max_retries"] = json!(9);
        message
    });
    Handler(backend.queues()).hand_in(&messages).await;
    for (message, (_, seconds)) in messages.iter().zip(delays) {
        let row = backend.until_message_is(id_of(message), "pending").await;
        let least = Duration::from_secs(seconds);
        let most = least + Duration::from_secs(1);
        assert!((least..=most).contains(&row.delay()), "{row:?}");
    }
}

#[tokio::test]
async fn what_was_missed_is_found_after_the_interval_of_the_environment() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let lane = patient(&backend).env("RETRY_POLL_INTERVAL_MS", "200");
    let lane = start_lane(lane).await;
    let shown = run(&lane, &["config", "show"]).await;
    let interval = r#"poll_interval = "200ms""#;
    assert!(shown.stdout.contains(interval), "{}", shown.stdout);
    let failure = a_failure(&queue);
    hand_in(&backend, &failure).await;
    backend
        .until_message_is(&failure.message_id, "pending")
        .await;

    // Nobody is told: only the next look after the interval finds it.
    assert_eq!(backend.make_messages_due().await, 1);

    assert_copy(&take_one(&backend, &queue).await, &failure, 1);
}

#[tokio::test]
async fn the_queues_are_those_of_the_environment() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let queues = backend.queues();
    let [mine, people] = ["mine", "people"].map(|name| queues.of_service(name));
    for queue in [&mine, &people] {
        queues.declare(queue).await;
    }
    let lane = quick(&backend).env("RETRY_QUEUE", &mine);
    let _lane = start_lane(lane.env("MANUAL_REVIEW_QUEUE", &people)).await;
    queues.publish(&mine, b"not a RetryMessage").await;
    assert_eq!(
        take_one(&backend, &people).await.body,
        b"not a RetryMessage"
    );
    let failure = json!({
        "message_id": a_failure(&queue).message_id,
        "original_payload": "aGk=",
        "original_queue": queue,
    });
    let json = lapin::BasicProperties::default().with_content_type("application/json".into());
    queues
        .publish_with(&mine, failure.to_string().as_bytes(), json)
        .await;
    assert_eq!(take_one(&backend, &queue).await.body, b"hi");
}

#[tokio::test]
async fn a_value_that_makes_no_sense_is_named() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let mut lane = start_lane(backend.posthaste()).await;
    for (name, value, problem) in [
        ("BASE_DELAY_MS", "2s", "not a whole number of milliseconds"),
        ("MAX_DELAY_MS", "", "not a whole number of milliseconds"),
        ("DEFAULT_MAX_RETRIES", "three", "not a whole number"),
        ("RETRY_POLL_INTERVAL_MS", "-1", "not a whole number"),
        ("DEFAULT_MAX_RETRIES", "0", "must be from 1 to 100"),
        ("RETRY_QUEUE", "", "must be the name of a queue"),
    ] {
        lane.set(name, value);
        let checked = run(&lane, &["config", "check"]).await;
        assert_eq!(checked.code, 2, "{name}: {}", checked.stdout);
        for word in [name, problem] {
            assert!(checked.stderr.contains(word), "{}", checked.stderr);
        }
        lane.unset(name);
    }
}
