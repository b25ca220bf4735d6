//! Each due retry is published once, and what is written about a ticket is about that one.

use std::collections::BTreeSet;

use posthaste_sink::Mode;
use posthaste_testkit::Proxy;
use serde_json::json;

use crate::backend::Backend;
use crate::fleet::submit_many;
use crate::support::{
    FAR_AWAY, a_sink, email_to, eventually, metric, post, submit, until, until_healthy, verify,
};

const EMAILS: usize = 300;

#[tokio::test]
async fn two_schedulers_publish_each_due_retry_exactly_once_per_attempt() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let process = || {
        backend
            .sending_to(&sink)
            .env("BACKOFF_SCHEDULE", "1h")
            .env("LEASE_SECONDS", "60")
            .env("RETRY_INTERVAL_SECONDS", "1")
    };
    let (queues, send) = (backend.queues(), backend.queues().send());
    let api = process().role("api").start().await;
    until_healthy(&api).await;
    sink.set_mode(Mode::TempfailAll);
    let recipients = (0..EMAILS).map(|n| format!("user{n}@example.org"));
    let ids: BTreeSet<String> = submit_many(&api, recipients).await.into_iter().collect();
    // Senders that would not look into the store by themselves.
    let sending = || process().env(FAR_AWAY.0, FAR_AWAY.1).role("sender");
    let schedulers = [
        process().role("scheduler").start().await,
        process().role("scheduler").start().await,
    ];
    for attempt in 1..=2_u8 {
        let mut sender = sending().start().await;
        let all_failed = format!("{attempt} attempts of all have failed");
        // One that waits for a way out is not tried yet, and is its sender's to let go.
        eventually(&all_failed, async || {
            let client = backend.database().beside().await;
            let sql = "SELECT count(*) FROM email_log
                       WHERE status = 'failed' AND waiting_for IS NULL";
            client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == EMAILS as i64
        })
        .await;
        assert_eq!(sender.terminate().await, Some(0));
        queues.wait_for_count(&send, 0).await;

        assert_eq!(backend.make_failed_due().await, EMAILS as u64);

        let tickets = queues.take_many(&send, EMAILS).await;
        let published: BTreeSet<String> = tickets
            .iter()
            .map(|ticket| ticket.json()["email_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(published, ids, "each, and none twice");
        eventually("all are marked as queued", async || {
            let client = backend.database().beside().await;
            let sql = "SELECT count(*) FROM email_log WHERE status = 'retry_queued'
                       AND locked_until IS NULL AND last_queued_at IS NOT NULL";
            client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == EMAILS as i64
        })
        .await;
        let mut requeued = 0.0;
        for scheduler in &schedulers {
            requeued += metric(scheduler, "posthaste_retries_requeued_total").await;
        }
        assert_eq!(requeued, f64::from(attempt) * EMAILS as f64);
        assert_eq!(queues.count(&send).await, 0, "no further one");
        // Back to the senders, for the next attempt.
        for ticket in &tickets {
            queues.publish(&send, &ticket.body).await;
        }
    }
    sink.set_mode(Mode::Normal);
    let _sender = sending().start().await;
    api.wait_for("/v1/stats", |stats| stats["emails"]["sent"] == EMAILS)
        .await;
    assert_eq!(sink.report().messages, EMAILS as u64);
    verify(&api).await;
}

#[tokio::test]
async fn a_scheduler_that_notes_its_publish_late_does_not_hide_a_replay_from_the_others() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let (queues, send) = (backend.queues(), backend.queues().send());
    let process = || {
        backend
            .sending_to(&sink)
            .env("BACKOFF_SCHEDULE", "1h")
            .env("MAX_ATTEMPTS", "2")
            .env("LEASE_SECONDS", "600")
            .env(FAR_AWAY.0, FAR_AWAY.1)
    };
    let api = process().role("api").start().await;
    let mut sender = process().role("sender").start().await;
    until_healthy(&api).await;
    let to_rabbitmq = Proxy::to(queues.url()).await;
    let to_postgres = Proxy::to(&backend.database().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&to_rabbitmq);
    let scheduler = process()
        .env(name, url)
        .env(
            "DATABASE_URL",
            to_postgres.by_way_of(&backend.database().url()),
        )
        .env("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "60s")
        .env("POSTHASTE_STORE__TIMEOUT", "60s")
        .env("RETRY_INTERVAL_SECONDS", "1")
        .role("scheduler")
        .start()
        .await;
    until_healthy(&scheduler).await;
    // Another one first, so that the scheduler has its channels to RabbitMQ.
    let other = submit(&api, &email_to("fail1@example.org")).await;
    until(&api, &other, "failed").await;
    assert_eq!(backend.make_failed_due().await, 1);
    until(&api, &other, "sent").await;
    let id = submit(&api, &email_to("fail2@example.org")).await;
    until(&api, &id, "failed").await;

    // The scheduler claims it, and its ticket is on the way.
    to_rabbitmq.fall_silent();
    assert_eq!(backend.make_failed_due().await, 1);
    to_rabbitmq.wait_for_held(&id).await;
    // The ticket arrives; that it was published cannot be written down yet.
    to_postgres.fall_silent();
    to_rabbitmq.restore();
    until(&api, &id, "dead").await;
    assert_eq!(sender.terminate().await, Some(0));
    let path = format!("/v1/dead-letters/{id}/retry");
    assert_eq!(post(&api, &path, &json!({})).await.status, 200);
    assert_eq!(backend.row(&id).await.last_queued_at, None);

    to_postgres.restore();

    // The old ticket is spent: the replay needs one of its own, and not after an hour.
    queues.wait_for_count(&send, 1).await;
    sender.restart(&[]).await;
    until(&api, &id, "sent").await;
    verify(&api).await;
}
