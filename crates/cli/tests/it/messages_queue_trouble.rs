//! The queue of a message is missing or full: that costs no retry, and people are told why.

use lapin::types::{AMQPValue, FieldTable};
use posthaste_testkit::process::Posthaste;
use serde_json::Value;

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in, quick, start_lane, stubborn, take_one, until_metric,
};
use crate::support::{get, run, verify};

on_both_stores! {
    a_message_waits_for_a_queue_that_is_missing_and_people_see_why,
    a_message_whose_queue_stays_missing_goes_to_review,
    a_message_waits_for_a_queue_that_is_full,
    one_bad_queue_does_not_hold_up_the_others,
    queues_of_ours_that_are_deleted_are_made_again,
}

/// A message as the command line shows it.
async fn shown(server: &Posthaste, id: &str) -> Value {
    let output = run(server, &["messages", "show", id, "--json"]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

async fn a_message_waits_for_a_queue_that_is_missing_and_people_see_why(backend: &Backend) {
    a_service(backend).await;
    let missing = backend.queues().of_service("missing");
    // With the API, to see it there.
    let server = stubborn(backend).start().await;
    let failure = a_failure(&missing);
    let id = failure.message_id.as_str();
    hand_in(backend, &failure).await;

    let waits = |row: &crate::messages_row::MessageRow| row.publish_failures >= 2;
    let row = backend.until_message(id, waits).await;
    assert_eq!((row.status.as_str(), row.retry_count), ("pending", 0));
    let reason = format!("its queue `{missing}` is not there");
    let path = format!("/v1/messages/{id}");
    let by_api = get(&server, &path).await.body;
    for seen in [by_api, shown(&server, id).await] {
        assert_eq!(seen["status"], "pending", "{seen}");
        assert_eq!(seen["last_error"], reason);
    }
    // Between two tries.
    let between = |seen: &Value| {
        let text = seen["status_text"].as_str().unwrap();
        text.starts_with("Could not be republished (")
    };
    server.wait_for(&path, between).await;
    let told = run(&server, &["messages", "show", id]).await.stdout;
    assert!(told.contains(&reason), "{told}");
    let listed = run(&server, &["messages", "list", "--status", "pending"]).await;
    assert!(listed.stdout.contains(id), "{}", listed.stdout);

    backend.queues().declare(&missing).await;

    assert_copy(&take_one(backend, &missing).await, &failure, 1);
    let row = backend.until_message_is(id, "retried").await;
    assert_eq!((row.publish_failures, row.last_error), (0, None));
    assert_eq!(row.repeats, 0, "a queue that is missing got nothing");
    verify(&server).await;
}

async fn a_message_whose_queue_stays_missing_goes_to_review(backend: &Backend) {
    a_service(backend).await;
    let missing = backend.queues().of_service("missing");
    let lane = quick(backend).env("POSTHASTE_MESSAGES__MAX_PUBLISH_FAILURES", "2");
    let lane = start_lane(lane).await;
    let failure = a_failure(&missing);
    hand_in(backend, &failure).await;

    let aside = take_one(backend, &backend.queues().review()).await;

    assert_copy(&aside, &failure, 0);
    let reason = format!("NotRepublished: tried 2 times; its queue `{missing}` is not there");
    assert_eq!(aside.headers["x-review-reason"], reason);
    let row = backend
        .until_message_is(&failure.message_id, "failed")
        .await;
    assert_eq!((row.retry_count, row.publish_failures), (0, 2));
    assert_eq!(row.last_error, Some(reason));
    let failed = format!(r#"retries_executed_total{{queue="{missing}",status="failed"}}"#);
    until_metric(&lane, &failed, 2.0).await;

    // Once its queue is there, an operator sends it after all.
    backend.queues().declare(&missing).await;
    let output = run(&lane, &["messages", "retry", &failure.message_id]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_copy(&take_one(backend, &missing).await, &failure, 1);
    backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    verify(&lane).await;
}

async fn a_message_waits_for_a_queue_that_is_full(backend: &Backend) {
    a_service(backend).await;
    let queues = backend.queues();
    let full = queues.of_service("full");
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    let refuse = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), refuse);
    queues.declare_with(&full, arguments).await;
    queues.publish(&full, b"in the way").await;
    let lane = start_lane(stubborn(backend)).await;
    let failure = a_failure(&full);
    hand_in(backend, &failure).await;

    let waits = |row: &crate::messages_row::MessageRow| row.publish_failures >= 2;
    let row = backend.until_message(&failure.message_id, waits).await;
    assert_eq!((row.status.as_str(), row.retry_count), ("pending", 0));
    let reason = format!("its queue `{full}` does not take it; is it full?");
    assert_eq!(row.last_error, Some(reason));

    assert_eq!(take_one(backend, &full).await.body, b"in the way");

    assert_copy(&take_one(backend, &full).await, &failure, 1);
    let row = backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    assert_eq!((row.publish_failures, row.repeats), (0, 0));
    verify(&lane).await;
}

async fn one_bad_queue_does_not_hold_up_the_others(backend: &Backend) {
    let queue = a_service(backend).await;
    let missing = backend.queues().of_service("missing");
    let lane = start_lane(stubborn(backend)).await;
    let mut well = Vec::new();
    for n in 0..40 {
        let is_well = n % 2 == 0;
        let failure = a_failure(if is_well { &queue } else { &missing });
        hand_in(backend, &failure).await;
        well.extend(is_well.then_some(failure));
    }

    let copies = backend.queues().take_many(&queue, well.len()).await;

    for failure in &well {
        let is_copy =
            |copy: &&posthaste_testkit::Message| copy.headers["x-message-id"] == failure.message_id;
        assert_copy(copies.iter().find(is_copy).unwrap(), failure, 1);
        backend
            .until_message_is(&failure.message_id, "retried")
            .await;
    }
    until_metric(&lane, "retry_queue_depth", 20.0).await;
    verify(&lane).await;
}

async fn queues_of_ours_that_are_deleted_are_made_again(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(quick(backend)).await;
    let queues = backend.queues();
    let (own, review) = (queues.messages(), queues.review());
    queues.delete(&own).await;
    queues.wait_for_count(&own, 0).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;
    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let mut spent = a_failure(&queue);
    spent.retry_count = 3;
    // That it is gone is noticed when something is to go there.
    queues.delete(&review).await;
    hand_in(backend, &spent).await;
    queues.wait_for_count(&review, 1).await;
    assert_copy(&take_one(backend, &review).await, &spent, 3);
    backend.until_message_is(&spent.message_id, "failed").await;
    verify(&lane).await;
}
