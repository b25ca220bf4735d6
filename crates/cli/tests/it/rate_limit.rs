//! How much may go by a way at the same time, and what happens when the other side has enough.

use std::time::Duration;

use posthaste_sink::{Mode, Sink};
use posthaste_testkit::{Provider, ProviderAnswer};
use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, submit, until, verify};
use crate::ways_support::{ConfigFile, emails_to_many, submit_all, with_provider};

on_every_backend! {
    no_more_go_by_a_transport_at_the_same_time_than_may,
    no_more_go_to_a_domain_at_the_same_time_than_may,
}

/// How many connections were open at once until so many messages had come.
async fn most_open_until(sink: &Sink, messages: u64) -> u64 {
    let mut most = 0;
    while sink.accepted() < messages {
        most = most.max(sink.report().open_connections);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    most
}

async fn no_more_go_by_a_transport_at_the_same_time_than_may(backend: &Backend) {
    let sink = a_sink().await;
    sink.set_mode(Mode::Delay(Duration::from_millis(30)));
    let config = ConfigFile::new(&format!(
        "[transport.relay]\nkind = \"smtp\"\nurl = \"{}?tls=none\"\nconcurrency = 2\n",
        sink.url()
    ));
    let server = config.of(backend.posthaste()).start().await;
    let ids = submit_all(&server, &emails_to_many(40)).await;
    assert_eq!(most_open_until(&sink, 40).await, 2);
    for id in &ids {
        let sent = until(&server, id, "sent").await;
        assert_eq!(sent["attempt_count"], 0, "{sent}");
    }
    verify(&server).await;
}

async fn no_more_go_to_a_domain_at_the_same_time_than_may(backend: &Backend) {
    let sink = a_sink().await;
    sink.set_mode(Mode::Delay(Duration::from_millis(20)));
    let server = backend
        .sending_to(&sink)
        .env("POSTHASTE_LIMITS__DOMAIN_CONCURRENCY", "1")
        .start()
        .await;
    let emails: Vec<Value> = (0..20)
        .map(|n| email_to(&format!("user{n}@example.net")))
        .collect();
    submit_all(&server, &emails).await;
    assert_eq!(most_open_until(&sink, 20).await, 1);
    let stats = |stats: &Value| stats["emails"]["sent"] == 20;
    server.wait_for("/v1/stats", stats).await;
    verify(&server).await;
}

#[tokio::test]
async fn a_provider_that_has_enough_is_asked_less() {
    let (backend, provider) = (Backend::sqlite().await, Provider::start());
    let config = with_provider(&provider);
    let server = config
        .of(backend.posthaste())
        .env("BACKOFF_SCHEDULE", "100ms")
        .start()
        .await;
    let enough = ProviderAnswer::Refused(429, "rate_limit_exceeded", "Too many requests.", Some(2));
    provider.answer("ann@example.org", [enough]);
    let id = submit(&server, &email_to("ann@example.org")).await;
    let failed = until(&server, &id, "failed").await;
    let attempt = &failed["attempts"][0];
    assert_eq!(attempt["error_class"], "rate_limited", "{failed}");
    let time = |value: &Value| -> jiff::Timestamp { value.as_str().unwrap().parse().unwrap() };
    let rest = time(&failed["next_attempt_at"]).duration_since(time(&attempt["finished_at"]));
    assert!(
        rest.as_millis() >= 2_000,
        "what it asks for is more than our delay: {failed}"
    );
    let learned = |transport: &Value| transport["learned_rate"].is_number();
    server.wait_for("/v1/transports/resend", learned).await;
    until(&server, &id, "sent").await;
    assert_eq!(provider.copies(&id), 1);
    assert_eq!(provider.requests_of(&id).len(), 2);
    verify(&server).await;
}
