//! A sender that freezes after the dot, while others go on.

use posthaste_testkit::process::Posthaste;

use crate::backend::Backend;
use crate::recording_server::{DotArrived, RecordingServer};
use crate::support::{
    email_to, eventually, metric, outcomes, submit, until, until_healthy, verify,
};

/// Two senders and a process for everything else.
struct Frozen {
    others: Posthaste,
    /// It has sent the dot, and is frozen.
    frozen: Posthaste,
    _awake: Posthaste,
    recorder: RecordingServer,
    id: String,
    dot: DotArrived,
    /// Dropped after those who work on it, or they would make its queues anew.
    backend: Backend,
}

/// Freezes the sender that sent the dot.
async fn frozen_after_the_dot(on_unknown: &str) -> Frozen {
    let backend = Backend::postgres_and_rabbitmq().await;
    let mut recorder = RecordingServer::start().await;
    let process = || {
        backend
            .posthaste()
            .env("SMTP_URL", &recorder.url)
            .env("LEASE_SECONDS", "2")
            // RabbitMQ may hand the next ticket to the one that is frozen, too.
            .env("RETRY_INTERVAL_SECONDS", "1")
            .env("BACKOFF_SCHEDULE", "100ms")
            .env("POSTHASTE_RETRY__ON_UNKNOWN", on_unknown)
    };
    let sender = |name: &str| process().env("POSTHASTE_SENDER__WORKER", name);
    let others = process().role("api,scheduler").start().await;
    let a = sender("a").role("sender").start().await;
    let b = sender("b").role("sender").start().await;
    for server in [&others, &a, &b] {
        until_healthy(server).await;
    }
    let id = submit(&others, &email_to("ann@example.org")).await;
    let dot = recorder.dots.recv().await.unwrap();
    let (frozen, awake) = match backend.row(&id).await.worker.as_deref() {
        Some("a") => (a, b),
        Some("b") => (b, a),
        other => panic!("{other:?} sends"),
    };
    frozen.pause();
    Frozen {
        others,
        frozen,
        _awake: awake,
        recorder,
        id,
        dot,
        backend,
    }
}

const KEPT: &str = "250 2.0.0 kept\r\n";

#[tokio::test]
async fn with_hold_there_is_no_second_copy_and_the_late_250_is_proof() {
    let mut it = frozen_after_the_dot("hold").await;
    let uncertain = until(&it.others, &it.id, "unknown").await;
    assert_eq!(outcomes(&uncertain), ["unknown"]);
    let rescued = r#"posthaste_leases_rescued_total{phase="committing"}"#;
    assert_eq!(metric(&it.others, rescued).await, 1.0);

    it.dot.answer.send(KEPT).unwrap();
    it.frozen.resume();

    let sent = until(&it.others, &it.id, "sent").await;
    assert_eq!(sent["status_text"], "Delivered");
    assert_eq!(outcomes(&sent), ["sent"], "nothing is uncertain any more");
    let stale = "posthaste_stale_writes_rejected_total";
    assert_eq!(metric(&it.frozen, stale).await, 0.0);
    assert!(it.recorder.dots.try_recv().is_err(), "no second copy");
    verify(&it.others).await;
}

#[tokio::test]
async fn with_resend_the_extra_copy_has_its_recorded_unknown_and_the_late_result_is_refused() {
    let mut it = frozen_after_the_dot("resend").await;
    let second = it.recorder.dots.recv().await.unwrap();
    assert_eq!(second.bytes, it.dot.bytes, "byte for byte the same");
    second.answer.send(KEPT).unwrap();
    let sent = until(&it.others, &it.id, "sent").await;
    assert_eq!(outcomes(&sent), ["unknown", "sent"]);
    assert_ne!(sent["attempts"][0]["worker"], sent["attempts"][1]["worker"]);
    assert_eq!(sent["possible_duplicate"], true);

    it.dot.answer.send("451 4.3.0 try again later\r\n").unwrap();
    it.frozen.resume();

    let stale = "posthaste_stale_writes_rejected_total";
    eventually("the late result is refused and counted", async || {
        metric(&it.frozen, stale).await == 1.0
    })
    .await;
    let after = until(&it.others, &it.id, "sent").await;
    assert_eq!(after, sent, "it changed nothing");
    assert!(it.recorder.dots.try_recv().is_err(), "no third copy");
    verify(&it.others).await;
}

#[tokio::test]
async fn a_late_result_does_not_disturb_the_attempt_that_came_after() {
    let mut it = frozen_after_the_dot("resend").await;
    let second = it.recorder.dots.recv().await.unwrap();

    it.dot.answer.send(KEPT).unwrap();
    it.frozen.resume();

    let stale = "posthaste_stale_writes_rejected_total";
    eventually("the late result is refused and counted", async || {
        metric(&it.frozen, stale).await == 1.0
    })
    .await;
    let (status, phase) = it.backend.status_and_phase(&it.id).await;
    assert_eq!((status.as_str(), phase.as_str()), ("sending", "committing"));
    second.answer.send(KEPT).unwrap();
    let sent = until(&it.others, &it.id, "sent").await;
    assert_eq!(outcomes(&sent), ["unknown", "sent"]);
    assert!(it.recorder.dots.try_recv().is_err(), "no third copy");
    verify(&it.others).await;
}

#[tokio::test]
async fn frozen_before_the_gate_another_sender_sends_and_the_late_one_does_not() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let mut recorder = RecordingServer::start_asking_before_the_body().await;
    let process = || {
        backend
            .posthaste()
            .env("SMTP_URL", &recorder.url)
            .env("LEASE_SECONDS", "2")
            // RabbitMQ may hand the next ticket to the one that is frozen, too.
            .env("RETRY_INTERVAL_SECONDS", "1")
    };
    let others = process().role("api,scheduler").start().await;
    let frozen = process().role("sender").start().await;
    let id = submit(&others, &email_to("ann@example.org")).await;
    let body = recorder.bodies.recv().await.unwrap();
    frozen.pause();
    until_the_lease_is_released(&backend, &id).await;
    let awake = process().role("sender").start().await;
    recorder.bodies.recv().await.unwrap().send(()).unwrap();
    let dot = recorder.dots.recv().await.unwrap();
    dot.answer.send(KEPT).unwrap();
    let sent = until(&others, &id, "sent").await;
    assert_eq!(outcomes(&sent), ["lost", "sent"]);
    assert_eq!(sent["possible_duplicate"], false);

    // Now the server lets the late one go on, which must not send the dot.
    body.send(()).unwrap();
    frozen.resume();
    recorder.cut_off.recv().await.unwrap();
    assert!(recorder.dots.try_recv().is_err(), "no second copy");
    let stale = "posthaste_stale_writes_rejected_total";
    eventually("the late gate is refused and counted", async || {
        metric(&frozen, stale).await >= 1.0
    })
    .await;
    verify(&others).await;
    drop(awake);
}

/// Waits until the rescuer took the lease from a sender that does not renew it.
async fn until_the_lease_is_released(backend: &Backend, id: &str) {
    eventually("the lease is released", async || {
        backend.row(id).await.status != "sending"
    })
    .await;
}
