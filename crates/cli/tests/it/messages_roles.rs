//! Which processes run the message lane, alone and together.

use std::collections::BTreeSet;

use posthaste_testkit::Queues;

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, acknowledged_all, assert_copy, find_metric, hand_in, quick, start_lane,
    take_one,
};
use crate::support::{eventually, get, metric, post, run, until_healthy, verify};

on_both_stores! {
    a_server_with_all_roles_runs_the_lane,
    the_lane_alone_serves_health_and_metrics_only,
}

async fn a_server_with_all_roles_runs_the_lane(backend: &Backend) {
    let queue = a_service(backend).await;
    let server = quick(backend).start().await;
    until_healthy(&server).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 1);

    let path = format!("/v1/messages/{}", failure.message_id);
    let shown = server
        .wait_for(&path, |message| message["status"] == "retried")
        .await;
    assert_eq!(shown["retry_count"], 1);
    assert_eq!(shown["status_text"], "Republished (retry 1 of 3)");
    verify(&server).await;
}

async fn the_lane_alone_serves_health_and_metrics_only(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(quick(backend)).await;
    let failure = a_failure(&queue);
    hand_in(backend, &failure).await;
    take_one(backend, &queue).await;
    let id = &failure.message_id;
    for path in [
        "/v1/messages",
        &format!("/v1/messages/{id}"),
        "/v1/emails",
        "/v1/stats",
        "/admin",
        "/docs",
    ] {
        assert_eq!(get(&lane, path).await.status, 404, "{path}");
    }
    let path = format!("/v1/messages/{id}/retry");
    let refused = post(&lane, &path, &serde_json::Value::Null).await;
    assert_eq!(refused.status, 404);
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert_eq!(get(&lane, path).await.status, 200, "{path}");
    }
    // It has nothing to do with emails.
    let queues = backend.queues();
    queues.declare(&queues.send()).await;
    queues.publish(&queues.send(), b"not for the lane").await;
    hand_in(backend, &a_failure(&queue)).await;
    take_one(backend, &queue).await;
    assert_eq!(queues.count(&queues.send()).await, 1);
}

#[tokio::test]
async fn the_lane_without_rabbitmq_says_what_to_do() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    for roles in ["messages", "api,messages"] {
        let refused = run(&server, &[&listen[..], &["--role", roles]].concat()).await;
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let advice = "the role `messages` needs RabbitMQ: set RABBITMQ_URL";
        assert!(refused.stderr.contains(advice), "{}", refused.stderr);
    }
    // Without naming it, all is well, and there is no lane.
    until_healthy(&server).await;
    assert_eq!(metric(&server, "retry_queue_depth").await, 0.0);
}

#[tokio::test]
async fn a_process_without_the_role_leaves_failed_messages_alone() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let process = quick(&backend).role("api,sender,scheduler");
    let without = process.start().await;
    until_healthy(&without).await;
    let failure = a_failure(&queue);
    hand_in(&backend, &failure).await;
    let queues = backend.queues();
    assert_eq!(queues.count(&queues.messages()).await, 1);

    let _lane = start_lane(quick(&backend)).await;

    assert_copy(&take_one(&backend, &queue).await, &failure, 1);
}

#[tokio::test]
async fn two_processes_share_the_work_and_nothing_is_put_back_twice() {
    two_processes_share_the_work(Queues::fresh()).await;
}

#[tokio::test]
async fn two_processes_share_the_work_on_quorum_queues() {
    two_processes_share_the_work(Queues::fresh().quorum()).await;
}

async fn two_processes_share_the_work(queues: Queues) {
    let backend = Backend::with_queues(queues).await;
    let queues = backend.queues();
    let start = || start_lane(quick(&backend).env("POSTHASTE_MESSAGES__JITTER", "1s"));
    let (mut a, mut b) = tokio::join!(start(), start());
    let queue = queues.of_service("orders");
    queues.declare(&queue).await;
    let failures: Vec<_> = (0..200).map(|_| a_failure(&queue)).collect();
    for failure in &failures {
        hand_in(&backend, failure).await;
    }

    let copies = queues.take_many(&queue, failures.len()).await;

    let ids = copies.iter().map(|copy| &copy.headers["x-message-id"]);
    let expected = failures.iter().map(|failure| &failure.message_id);
    assert_eq!(ids.collect::<BTreeSet<_>>(), expected.collect());
    for failure in &failures {
        let row = backend
            .until_message_is(&failure.message_id, "retried")
            .await;
        assert_eq!((row.retry_count, row.repeats), (1, 0));
    }
    let scheduled = format!(r#"retries_scheduled_total{{queue="{queue}"}}"#);
    eventually("both have worked", async || {
        let of_a = find_metric(&a, &scheduled).await;
        let of_b = find_metric(&b, &scheduled).await;
        of_a.zip(of_b).is_some_and(|(a, b)| a + b == 200.0)
    })
    .await;
    for lane in [&mut a, &mut b] {
        assert!(acknowledged_all(lane, &backend).await);
    }
    assert_eq!(queues.count(&queue).await, 0);
    verify(&a).await;
}
