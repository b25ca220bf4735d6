//! Seed 000, the retry scheduler: what it configures, logs, counts and writes.

use jiff::Timestamp;
use posthaste_sink::Sink;
use posthaste_testkit::Proxy;
use posthaste_testkit::process::Posthaste;
use serde_json::Value;

use crate::backend::Backend;
use crate::recording_server::RecordingServer;
use crate::support::{
    a_sink, email_to, eventually, logged, metric, submit, until, until_healthy, verify,
};

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// An email whose first attempt failed, to be tried again in an hour. No sender runs any more.
async fn failed_once(backend: &Backend, sink: &Sink) -> (Posthaste, String) {
    let process = || backend.sending_to(sink).env("BACKOFF_SCHEDULE", "1h");
    let api = process().role("api").start().await;
    let mut sender = process().role("sender").start().await;
    until_healthy(&api).await;
    let id = submit(&api, &email_to("tempfail@example.org")).await;
    until(&api, &id, "failed").await;
    assert_eq!(sender.terminate().await, Some(0));
    (api, id)
}

#[tokio::test]
async fn the_interval_acts_and_each_action_is_logged_counted_and_written() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let (api, id) = failed_once(&backend, &sink).await;
    let before = backend.row(&id).await;
    assert_eq!(
        (before.status.as_str(), before.attempt_count),
        ("failed", 1)
    );
    assert!(before.locked_until.is_none());
    // With a lease that outlasts a machine that is busy with other things: each action is counted.
    let scheduler = backend.sending_to(&sink).env("LEASE_SECONDS", "60");
    let scheduler = scheduler.env("RETRY_INTERVAL_SECONDS", "1");
    let scheduler = scheduler.role("scheduler").start().await;
    until_healthy(&scheduler).await;
    assert_eq!(
        metric(&scheduler, "posthaste_retries_requeued_total").await,
        0.0
    );
    assert_eq!(metric(&scheduler, "posthaste_retries_due").await, 0.0);

    // Nobody is told: only the next look after the interval finds it.
    assert_eq!(backend.make_failed_due().await, 1);
    let queues = backend.queues();
    let ticket = &queues.take_many(&queues.send(), 1).await[0];

    assert_eq!(ticket.id.as_deref(), Some(id.as_str()));
    assert_eq!(ticket.json()["email_id"], id.as_str());
    let shown = until(&api, &id, "retry_queued").await;
    assert_eq!(ticket.json()["message_key"], shown["message_key"]);
    eventually("the publish is written down", async || {
        backend.row(&id).await.locked_until.is_none()
    })
    .await;
    let after = backend.row(&id).await;
    assert!(after.last_queued_at > before.last_queued_at, "{after:?}");
    assert_eq!(after.attempt_count, 1, "only a failure counts");
    let lines = logged(&scheduler, "scheduled", &id);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["attempt_count"], 1);
    assert_eq!(lines[0]["published"], true);
    let due = after.next_attempt_at.unwrap();
    assert_eq!(time(&lines[0]["next_attempt_at"]), due);
    assert_eq!(
        metric(&scheduler, "posthaste_retries_requeued_total").await,
        1.0
    );
    assert_eq!(metric(&scheduler, "posthaste_retries_due").await, 0.0);
    verify(&api).await;
}

#[tokio::test]
async fn what_could_not_be_published_stays_failed_and_due() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let (api, id) = failed_once(&backend, &sink).await;
    let proxy = Proxy::to(backend.queues().url()).await;
    proxy.cut();
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let scheduler = backend.sending_to(&sink).env(name, url);
    let scheduler = scheduler
        .env("RETRY_INTERVAL_SECONDS", "1")
        .role("scheduler");
    let scheduler = scheduler.start().await;
    assert_eq!(backend.make_failed_due().await, 1);
    let due = backend.row(&id).await.next_attempt_at.unwrap();

    eventually("it was tried twice", async || {
        logged(&scheduler, "scheduled", &id).len() >= 2
    })
    .await;
    for line in logged(&scheduler, "scheduled", &id) {
        assert_eq!(line["published"], false);
        assert!(!line["skipped"].as_str().unwrap().is_empty(), "{line}");
        assert_eq!(line["attempt_count"], 1);
        assert_eq!(time(&line["next_attempt_at"]), due);
    }
    eventually("it is failed again", async || {
        let row = backend.row(&id).await;
        row.status == "failed" && row.locked_until.is_none()
    })
    .await;
    let row = backend.row(&id).await;
    assert_eq!((row.attempt_count, row.next_attempt_at), (1, Some(due)));
    assert!(due <= row.now);
    assert_eq!(metric(&scheduler, "posthaste_retries_due").await, 1.0);
    assert_eq!(
        metric(&scheduler, "posthaste_retries_requeued_total").await,
        0.0
    );

    proxy.restore();
    let queues = backend.queues();
    queues.wait_for_count(&queues.send(), 1).await;
    until(&api, &id, "retry_queued").await;
    eventually("it is counted", async || {
        metric(&scheduler, "posthaste_retries_requeued_total").await == 1.0
    })
    .await;
    verify(&api).await;
}

#[tokio::test]
async fn an_email_at_its_budget_is_skipped_with_the_reason_and_counted_as_dead() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let (api, id) = failed_once(&backend, &sink).await;
    assert_eq!(backend.make_failed_due().await, 1);
    let scheduler = backend.sending_to(&sink).env("MAX_ATTEMPTS", "1");
    let scheduler = scheduler.role("scheduler").start().await;
    let dead = until(&api, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    let died = r#"posthaste_dead_total{reason="MaxAttemptsExceeded"}"#;
    eventually("it is counted", async || {
        metric(&scheduler, died).await == 1.0
    })
    .await;
    let lines = logged(&scheduler, "scheduled", &id);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["published"], false);
    assert_eq!(lines[0]["skipped"], "MaxAttemptsExceeded");
    assert_eq!(lines[0]["attempt_count"], 1);
    assert!(lines[0]["next_attempt_at"].is_string());
    let queues = backend.queues();
    assert_eq!(queues.count(&queues.send()).await, 0, "it is not retried");
    assert_eq!(
        metric(&scheduler, "posthaste_retries_requeued_total").await,
        0.0
    );
    verify(&api).await;
}

#[tokio::test]
async fn the_backoff_schedule_and_the_budget_act() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "200ms,300ms,50ms")
        .env("MAX_ATTEMPTS", "5")
        .env("LEASE_SECONDS", "30")
        .start()
        .await;
    let id = submit(&server, &email_to("tempfail@example.org")).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    let attempts = dead["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 5);
    // The last entry repeats. A retry may be late, but never early.
    for (pair, delay) in attempts.windows(2).zip([200_000, 300_000, 50_000, 50_000]) {
        let waited = time(&pair[1]["started_at"]).as_microsecond()
            - time(&pair[0]["finished_at"]).as_microsecond();
        assert!(waited >= delay, "{waited} µs instead of {delay}");
    }
    let lines = logged(&server, "scheduled", &id);
    let counts: Vec<_> = lines
        .iter()
        .map(|line| line["attempt_count"].as_u64())
        .collect();
    assert_eq!(counts, [Some(1), Some(2), Some(3), Some(4)]);
    let last = attempts.last().unwrap();
    assert_eq!(last["number"], 5);
    verify(&server).await;
}

#[tokio::test]
async fn the_lease_is_as_long_as_configured() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let mut recorder = RecordingServer::start().await;
    let server = backend.posthaste().env("SMTP_URL", &recorder.url);
    let server = server.env("LEASE_SECONDS", "3000").start().await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    let dot = recorder.dots.recv().await.unwrap();
    let row = backend.row(&id).await;
    let held = row.locked_until.unwrap().as_second() - row.started_at.unwrap().as_second();
    assert_eq!(held, 3000);
    dot.answer.send("250 2.0.0 kept\r\n").unwrap();
    until(&server, &id, "sent").await;
    assert!(backend.row(&id).await.locked_until.is_none());
    verify(&server).await;
}
