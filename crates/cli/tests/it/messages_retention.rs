//! Messages that are over are forgotten after their time; those that wait never are.

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in, quick, start_lane, take_one,
};
use crate::support::{eventually, metric, verify};

on_both_stores! {
    messages_are_forgotten_after_their_retention,
}

async fn messages_are_forgotten_after_their_retention(backend: &Backend) {
    let queue = a_service(backend).await;
    let mut lane = start_lane(quick(backend)).await;
    let retried = a_failure(&queue);
    let mut failed = a_failure(&queue);
    failed.retry_count = 3;
    let mut waits = a_failure(&queue);
    waits.next_retry_at_ms = i64::from(u32::MAX) * 1000;
    for failure in [&retried, &failed, &waits] {
        hand_in(backend, failure).await;
    }
    let messages = [
        (&retried, "retried"),
        (&failed, "failed"),
        (&waits, "pending"),
    ];
    for (failure, status) in messages {
        backend.until_message_is(&failure.message_id, status).await;
    }
    assert_copy(&take_one(backend, &queue).await, &retried, 1);

    // Those that were put back are kept for 7 days, those in review for 30.
    for (days, forgotten) in [(6, 0), (2, 1), (23, 2)] {
        lane.kill9();
        backend.age_messages(days).await;
        lane.restart(&[]).await;
        eventually("some are forgotten", async || {
            backend.count_messages().await == 3 - forgotten
        })
        .await;
        verify(&lane).await;
    }

    backend.until_message_is(&waits.message_id, "pending").await;
    assert_eq!(metric(&lane, "retry_queue_depth").await, 1.0);
    // What is forgotten is new if it fails again.
    hand_in(backend, &retried).await;
    assert_copy(&take_one(backend, &queue).await, &retried, 1);
    verify(&lane).await;
}
