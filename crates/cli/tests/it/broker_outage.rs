//! RabbitMQ is away, or loses everything: it is only a hint.

use posthaste_testkit::Proxy;
use posthaste_testkit::process::Posthaste;

use crate::backend::Backend;
use crate::fleet::{Fleet, submit_many};
use crate::support::{
    FAR_AWAY, a_sink, copies, email_to, get, post, submit, until, until_healthy, verify,
};

async fn until_degraded(server: &Posthaste) {
    let health = server
        .wait_for("/readyz", |health| health["status"] == "degraded")
        .await;
    assert_eq!(health["store"], "ok");
    assert!(
        health["degraded"].to_string().contains("broker"),
        "{health}"
    );
    assert_eq!(get(server, "/livez").await.status, 200);
}

#[tokio::test]
async fn while_rabbitmq_is_away_mail_is_accepted_and_sent_and_afterwards_tickets_flow_again() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let process = || {
        let process = backend.sending_to(&sink).env(name, &url);
        process.env(FAR_AWAY.0, FAR_AWAY.1)
    };
    let fleet = Fleet::start(process).await;
    let before = submit(&fleet.api, &email_to("before@example.org")).await;
    until(&fleet.api, &before, "sent").await;
    for round in 0..2 {
        proxy.cut();
        for process in [&fleet.api, &fleet.sender, &fleet.scheduler] {
            until_degraded(process).await;
        }
        let recipients = (0..20).map(|n| format!("away+{round}-{n}@example.org"));
        for id in submit_many(&fleet.api, recipients).await {
            until(&fleet.api, &id, "sent").await;
        }

        proxy.restore();

        fleet.until_healthy().await;
        // Their tickets are confirmed, so that the sender would leave them alone for an hour.
        let recipients = (0..20).map(|n| format!("back+{round}-{n}@example.org"));
        for id in submit_many(&fleet.api, recipients).await {
            until(&fleet.api, &id, "sent").await;
        }
    }
    assert_eq!(sink.report().messages, 81);
    assert!(sink.duplicates().is_empty());
    verify(&fleet.api).await;
}

#[tokio::test]
async fn a_connection_that_falls_silent_costs_no_email() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let process = || {
        let process = backend.sending_to(&sink).env(name, &url);
        process.env("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "1s")
    };
    let fleet = Fleet::start(process).await;
    proxy.fall_silent();
    let id = submit(&fleet.api, &email_to("ann@example.org")).await;
    until(&fleet.api, &id, "sent").await;
    proxy.restore();
    fleet.until_healthy().await;
    let id = submit(&fleet.api, &email_to("bob@example.org")).await;
    until(&fleet.api, &id, "sent").await;
    assert!(sink.duplicates().is_empty());
    verify(&fleet.api).await;
}

#[tokio::test]
async fn a_server_that_starts_while_rabbitmq_is_away_sends_from_the_store_retries_too() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(backend.queues().url()).await;
    proxy.cut();
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let server = backend.sending_to(&sink).env(name, url);
    let server = server.env("RETRY_INTERVAL_SECONDS", "1").start().await;
    until_degraded(&server).await;
    for recipient in ["ann@example.org", "fail1@example.org"] {
        let answer = post(&server, "/v1/emails", &email_to(recipient)).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let id = answer.body["id"].as_str().unwrap();
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, recipient), 1);
    }
    verify(&server).await;
}

#[tokio::test]
async fn with_all_queues_purged_again_and_again_everything_arrives() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let process = || {
        backend
            .sending_to(&sink)
            .env("LEASE_SECONDS", "30")
            .env("RETRY_INTERVAL_SECONDS", "1")
            .env("POSTHASTE_BROKER__PREFETCH", "4")
            .env("POSTHASTE_SENDER__CONNECTIONS", "2")
    };
    let api = process().role("api").start().await;
    until_healthy(&api).await;
    let kinds = ["slow20", "fail1", "ann"];
    let some = |round: usize| (0..60).map(move |n| format!("{}+{round}-{n}@a.org", kinds[n % 3]));
    let mut ids = submit_many(&api, some(0)).await;
    let queues = backend.queues();
    queues.wait_for_count(&queues.send(), 60).await;
    assert_eq!(queues.purge_tickets().await, 60);
    // The same while others work on them.
    let _sender = process().role("sender").start().await;
    let _scheduler = process().role("scheduler").start().await;
    let mut purged = 0;
    for round in 1..4 {
        ids.extend(submit_many(&api, some(round)).await);
        purged += queues.purge_tickets().await;
        sink.wait_for(20 * round as u64).await;
        purged += queues.purge_tickets().await;
    }
    assert!(purged > 0, "nothing was lost");
    for id in &ids {
        until(&api, id, "sent").await;
    }
    assert_eq!(sink.report().messages, 240);
    assert!(sink.duplicates().is_empty());
    verify(&api).await;
}

#[tokio::test]
async fn with_all_queues_deleted_everything_arrives_and_tickets_flow_again() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let process = || {
        backend
            .sending_to(&sink)
            .env("LEASE_SECONDS", "30")
            .env("RETRY_INTERVAL_SECONDS", "1")
    };
    let mut fleet = Fleet::start(process).await;
    let recipients = (0..60).map(|n| format!("slow20+{n}@example.org"));
    let mut ids = submit_many(&fleet.api, recipients).await;
    backend.queues().delete_all().await;
    let recipients = (0..60).map(|n| format!("fail1+{n}@example.org"));
    ids.extend(submit_many(&fleet.api, recipients).await);
    for id in &ids {
        until(&fleet.api, id, "sent").await;
    }
    fleet.until_healthy().await;
    // Without another look into the store for an hour.
    for process in [&mut fleet.api, &mut fleet.sender] {
        assert_eq!(process.terminate().await, Some(0));
        process.restart(&[FAR_AWAY]).await;
    }
    fleet.until_healthy().await;
    ids.push(submit(&fleet.api, &email_to("ann@example.org")).await);
    until(&fleet.api, ids.last().unwrap(), "sent").await;
    assert_eq!(sink.report().messages, 121);
    assert!(sink.duplicates().is_empty());
    verify(&fleet.api).await;
}
