//! kill -9 at the worst moments of the message lane.

use posthaste_broker::RetryMessage;
use posthaste_testkit::process::Posthaste;

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, acknowledged_all, assert_copy, duplicates, hand_in, patient, quick,
    start_lane, take_one,
};
use crate::support::{eventually, metric, run, verify};

on_both_stores! {
    killed_between_publishing_and_settling_it_repeats_and_says_so,
    a_failure_that_comes_before_the_repeat_is_the_next_one,
    killed_after_its_claim_it_publishes_later,
    killed_before_the_acknowledgement_it_keeps_the_message_once,
    killed_before_the_acknowledgement_it_puts_the_message_back_once,
    told_to_stop_it_leaves_nothing_half_done,
}

/// A lane that dies at this point, over a message that was handed in.
async fn killed_over_a_message(
    backend: &Backend,
    queue: &str,
    failpoint: &str,
) -> (Posthaste, RetryMessage) {
    let lane = quick(backend).env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"));
    let mut lane = start_lane(lane).await;
    let failure = a_failure(queue);
    hand_in(backend, &failure).await;
    lane.wait_for_exit().await;
    (lane, failure)
}

/// The claim of the dead holds for half a minute: let it be over, and start another.
async fn restart_after_the_claim(backend: &Backend, lane: &mut Posthaste, id: &str) {
    let row = backend.find_message(id).await.unwrap();
    assert_eq!((row.status.as_str(), row.repeats), ("pending", 0));
    assert!(row.locked_until > Some(row.next_retry_at), "{row:?}");
    assert_eq!(backend.end_message_claims().await, 1);
    lane.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
}

async fn killed_between_publishing_and_settling_it_repeats_and_says_so(backend: &Backend) {
    let queue = a_service(backend).await;
    let (mut lane, failure) =
        killed_over_a_message(backend, &queue, "messages.after_publish").await;
    let id = failure.message_id.as_str();
    assert_copy(&take_one(backend, &queue).await, &failure, 1);

    restart_after_the_claim(backend, &mut lane, id).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let row = backend.until_message_is(id, "retried").await;
    assert_eq!((row.retry_count, row.repeats), (1, 1));
    let shown = run(&lane, &["messages", "show", id, "--json"]).await.stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["repeats"], 1);
    assert_eq!(metric(&lane, "posthaste_message_repeats_total").await, 1.0);
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0, "no third one");
    verify(&lane).await;
}

/// The claim of the dead still holds when its message fails again. It must have been put back.
async fn a_failure_that_comes_before_the_repeat_is_the_next_one(backend: &Backend) {
    let queue = a_service(backend).await;
    let (mut lane, failure) =
        killed_over_a_message(backend, &queue, "messages.after_publish").await;
    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    lane.restart(&[("POSTHASTE_FAILPOINT", "")]).await;

    // By a handler that does not count.
    hand_in(backend, &failure).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 2);
    let row = backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    assert_eq!((row.retry_count, row.repeats), (2, 0));
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0, "no repeat");
    verify(&lane).await;
}

async fn killed_after_its_claim_it_publishes_later(backend: &Backend) {
    let queue = a_service(backend).await;
    let (mut lane, failure) = killed_over_a_message(backend, &queue, "messages.after_claim").await;
    assert_eq!(backend.queues().count(&queue).await, 0);

    restart_after_the_claim(backend, &mut lane, &failure.message_id).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let row = backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    // Nobody can know that it was not published.
    assert_eq!((row.retry_count, row.repeats), (1, 1));
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0);
    verify(&lane).await;
}

async fn killed_before_the_acknowledgement_it_keeps_the_message_once(backend: &Backend) {
    let queue = a_service(backend).await;
    let queues = backend.queues();
    let lane = patient(backend);
    let mut lane =
        start_lane(lane.env("POSTHASTE_FAILPOINT", "messages.before_acknowledge=kill")).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;
    lane.wait_for_exit().await;
    let before = backend.find_message(&failure.message_id).await;
    queues.wait_for_count(&queues.messages(), 1).await;

    lane.restart(&[("POSTHASTE_FAILPOINT", "")]).await;

    eventually("it is ignored", async || duplicates(&lane).await == 1.0).await;
    assert_eq!(backend.find_message(&failure.message_id).await, before);
    assert_eq!(backend.count_messages().await, 1);
    assert!(acknowledged_all(&mut lane, backend).await);
    verify(&lane).await;
}

async fn killed_before_the_acknowledgement_it_puts_the_message_back_once(backend: &Backend) {
    let queue = a_service(backend).await;
    let point = "messages.before_acknowledge";
    let (mut lane, failure) = killed_over_a_message(backend, &queue, point).await;

    // It is due, and is delivered again: whichever comes first.
    lane.restart(&[("POSTHASTE_FAILPOINT", "")]).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    eventually("it is ignored", async || duplicates(&lane).await == 1.0).await;
    let row = backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    assert_eq!((row.retry_count, row.repeats), (1, 0));
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 0, "no second one");
    verify(&lane).await;
}

async fn told_to_stop_it_leaves_nothing_half_done(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(patient(backend)).await;
    let failures: Vec<_> = (0..300).map(|_| a_failure(&queue)).collect();
    for failure in &failures {
        hand_in(backend, failure).await;
    }
    for failure in &failures {
        backend
            .until_message_is(&failure.message_id, "pending")
            .await;
    }
    assert_eq!(lane.terminate().await, Some(0));
    assert_eq!(backend.make_messages_due().await, 300);
    lane.restart(&[]).await;
    eventually("some are there", async || {
        backend.queues().count(&queue).await > 0
    })
    .await;

    assert_eq!(lane.terminate().await, Some(0));

    assert_eq!(backend.end_message_claims().await, 0, "all are settled");
    lane.restart(&[]).await;
    for failure in &failures {
        let row = backend
            .until_message_is(&failure.message_id, "retried")
            .await;
        assert_eq!((row.retry_count, row.repeats), (1, 0));
    }
    assert!(acknowledged_all(&mut lane, backend).await);
    assert_eq!(backend.queues().count(&queue).await, 300, "each came once");
    verify(&lane).await;
}
