//! The steps of emails as a collector of OpenTelemetry traces sees them.

use posthaste_testkit::process::Posthaste;
use posthaste_testkit::{CollectedSpan, Collector};
use reqwest::Method;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, until, until_healthy};
use crate::traces::{Caller, a_caller, named, traceparent_of};

const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

on_every_backend! {
    every_attempt_follows_from_the_acceptance,
}

/// Hands in an email within a trace, and gives its id.
async fn submit_within(server: &Posthaste, caller: &Caller, recipient: &str) -> String {
    let request = server
        .request(Method::POST, "/v1/emails")
        .header("traceparent", &caller.traceparent)
        .json(&email_to(recipient));
    let (status, _, body) = server.answer(request).await;
    assert_eq!(status, 202, "{body}");
    body["id"].as_str().unwrap().to_owned()
}

async fn every_attempt_follows_from_the_acceptance(backend: &Backend) {
    let (sink, collector) = (a_sink().await, Collector::start().await);
    let server = backend
        .sending_to(&sink)
        .env(COLLECTOR, collector.endpoint())
        .env("BACKOFF_SCHEDULE", "1s")
        .start()
        .await;
    let caller = a_caller();
    let id = submit_within(&server, &caller, "fail1@example.org").await;
    until(&server, &id, "sent").await;

    let is_attempt = |span: &&CollectedSpan| span.name == "email attempt";
    let spans = collector
        .wait_for(|spans| spans.iter().filter(is_attempt).count() == 2)
        .await;

    let accepted = named(&spans, "email accept");
    assert_eq!(accepted.trace_id, caller.trace_id);
    assert_eq!(accepted.parent_id, caller.span_id);
    assert_eq!(accepted.attributes["posthaste.email_id"], id);
    let mut attempts: Vec<_> = spans.iter().filter(is_attempt).collect();
    attempts.sort_by_key(|span| span.attributes["posthaste.attempt"].clone());
    for attempt in &attempts {
        assert_eq!(attempt.trace_id, caller.trace_id);
        assert_eq!(attempt.parent_id, accepted.span_id);
        assert_eq!(attempt.attributes["posthaste.email_id"], id);
        assert_eq!(attempt.attributes["posthaste.transport"], "smtp");
    }
    let outcome = |attempt: &CollectedSpan| attempt.attributes["posthaste.outcome"].clone();
    assert_eq!(outcome(attempts[0]), "transient");
    assert!(attempts[0].error.as_ref().unwrap().starts_with("451"));
    assert_eq!(
        (outcome(attempts[1]), &attempts[1].error),
        ("sent".into(), &None)
    );
}

#[tokio::test]
async fn a_ticket_carries_the_trace_of_its_email() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let collector = Collector::start().await;
    let mut api = backend
        .posthaste()
        .env(COLLECTOR, collector.endpoint())
        .role("api")
        .start()
        .await;
    until_healthy(&api).await;
    let caller = a_caller();
    submit_within(&api, &caller, "ann@example.org").await;

    let tickets = backend
        .queues()
        .take_many(&backend.queues().send(), 1)
        .await;

    assert_eq!(api.terminate().await, Some(0));
    let spans = collector.wait_for(|spans| !spans.is_empty()).await;
    let accepted = named(&spans, "email accept");
    assert_eq!(tickets[0].headers["traceparent"], traceparent_of(accepted));
}

#[tokio::test]
async fn without_a_collector_the_trace_of_an_email_passes_through() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let api = backend.posthaste().role("api").start().await;
    until_healthy(&api).await;
    let caller = a_caller();
    submit_within(&api, &caller, "ann@example.org").await;

    let tickets = backend
        .queues()
        .take_many(&backend.queues().send(), 1)
        .await;

    assert_eq!(tickets[0].headers["traceparent"], caller.traceparent);
}
