//! Every death is announced on the dead letter queue, at least once.

use std::collections::BTreeMap;

use posthaste_testkit::{Proxy, Queues};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::fleet::Fleet;
use crate::support::{
    a_sink, email_to, eventually, get, metric, submit, until, until_healthy, verify,
};

/// Takes so many notices and gives them by email. Each email must have exactly one.
async fn notices(queues: &Queues, count: usize) -> BTreeMap<String, Value> {
    let messages = queues.take_many(&queues.dead(), count).await;
    let mut notices = BTreeMap::new();
    for message in &messages {
        let notice = message.json();
        let id = notice["email_id"].as_str().unwrap().to_owned();
        assert_eq!(message.id.as_deref(), Some(id.as_str()));
        assert!(message.expiration.is_some(), "it must not stay for ever");
        assert!(notices.insert(id, notice).is_none(), "{messages:?}");
    }
    notices
}

fn assert_tells(notice: &Value, dead: &Value) {
    assert_eq!(notice["reason"], dead["dead_reason"], "{notice} {dead}");
    assert_eq!(notice["error"], dead["last_error"], "{notice} {dead}");
    assert_eq!(notice["attempts"], dead["attempt_count"], "{notice} {dead}");
    assert_eq!(
        notice["message_key"], dead["message_key"],
        "{notice} {dead}"
    );
}

/// Ways to die, and what is then the reason.
const WAYS: [(&str, &str); 4] = [
    ("reject@example.org", "HardBounce"),
    ("spam@example.org", "PolicyBlocked"),
    ("reject-data@example.org", "MessageRejected"),
    ("tempfail@example.org", "MaxAttemptsExceeded"),
];

#[tokio::test]
async fn every_dead_email_is_announced_with_what_became_of_it() {
    let backend = Backend::with_queues(Queues::fresh().quorum()).await;
    let sink = a_sink().await;
    let fleet = Fleet::start(|| backend.sending_to(&sink).env("MAX_ATTEMPTS", "2")).await;
    let mut ids = Vec::new();
    for (n, (recipient, reason)) in WAYS.iter().enumerate() {
        let mut email = email_to(recipient);
        email["message_key"] = json!(format!("way-{n}"));
        let id = submit(&fleet.api, &email).await;
        let dead = until(&fleet.api, &id, "dead").await;
        assert_eq!(dead["dead_reason"], *reason);
        assert_eq!(dead["message_key"], format!("way-{n}"));
        ids.push((id, dead));
    }
    let alive = submit(&fleet.api, &email_to("ann@example.org")).await;
    until(&fleet.api, &alive, "sent").await;

    let notices = notices(backend.queues(), ids.len()).await;

    for (id, dead) in &ids {
        assert_tells(&notices[id], dead);
    }
    assert!(!notices.contains_key(&alive));
    verify(&fleet.api).await;
}

#[tokio::test]
async fn what_died_while_rabbitmq_was_away_is_announced_when_it_is_back() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let fleet = Fleet::start(|| backend.sending_to(&sink).env(name, &url)).await;
    proxy.cut();
    let mut ids = Vec::new();
    for (recipient, _) in &WAYS[..3] {
        let id = submit(&fleet.api, &email_to(recipient)).await;
        let dead = until(&fleet.api, &id, "dead").await;
        ids.push((id, dead));
    }
    let queues = backend.queues();
    assert_eq!(queues.count(&queues.dead()).await, 0);

    proxy.restore();

    let notices = notices(queues, ids.len()).await;
    for (id, dead) in &ids {
        assert_tells(&notices[id], dead);
    }
    verify(&fleet.api).await;
}

#[tokio::test]
async fn a_scheduler_killed_while_announcing_announces_again() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let working = backend.sending_to(&sink).role("api,sender").start().await;
    let mut scheduler = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", "announcer.after_publish=kill")
        .role("scheduler")
        .start()
        .await;
    until_healthy(&scheduler).await;
    let id = submit(&working, &email_to("reject@example.org")).await;
    let dead = until(&working, &id, "dead").await;
    scheduler.wait_for_exit().await;
    // What the dead one had taken is left alone for a minute: let it be over.
    let client = backend.database().beside().await;
    let sql = "UPDATE event SET locked_until = posthaste_now()";
    assert_eq!(client.execute(sql, &[]).await.unwrap(), 1);

    scheduler.restart(&[("POSTHASTE_FAILPOINT", "")]).await;

    let queues = backend.queues();
    eventually("the news is forgotten once it is told", async || {
        let sql = "SELECT count(*) FROM event";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    // Once before the end, and once more because nobody could know.
    for message in queues.take_many(&queues.dead(), 2).await {
        assert_eq!(message.json()["email_id"], id.as_str());
        assert_tells(&message.json(), &dead);
    }
    verify(&working).await;
}

#[tokio::test]
async fn a_budget_that_was_lowered_ends_waiting_emails_and_that_is_announced() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let waiting_long = || {
        backend
            .sending_to(&sink)
            .env("BACKOFF_SCHEDULE", "10ms,10ms,1h")
    };
    let api = waiting_long().role("api").start().await;
    let mut working = waiting_long().role("sender,scheduler").start().await;
    until_healthy(&api).await;
    let id = submit(&api, &email_to("tempfail@example.org")).await;
    let waiting = api
        .wait_for_email(&id, |email| email["attempt_count"] == 3)
        .await;
    assert_eq!(waiting["status"], "failed");
    assert_eq!(working.terminate().await, Some(0));
    assert_eq!(backend.make_failed_due().await, 1);

    // No sender runs, so nobody but the scheduler can end it.
    let scheduler = waiting_long().env("MAX_ATTEMPTS", "3");
    let scheduler = scheduler.role("scheduler").start().await;

    let dead = until(&api, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(dead["last_error"], waiting["last_error"], "it is kept");
    assert_eq!(dead["attempt_count"], 3);
    assert_tells(&notices(backend.queues(), 1).await[&id], &dead);
    let died = r#"posthaste_dead_total{reason="MaxAttemptsExceeded"}"#;
    eventually("it is counted", async || {
        metric(&scheduler, died).await == 1.0
    })
    .await;
    let listed = get(&api, "/v1/dead-letters").await;
    assert_eq!(listed.body["data"][0]["id"], id.as_str());
    verify(&api).await;
}
