//! Metrics under the names of the contract.

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use serde_json::json;
use std::net::SocketAddr;

use crate::fixture::{Server, with_key};

#[tokio::test]
async fn every_metric_is_there_before_anything_happens() {
    let server = Server::start();
    let answer = server.get("/metrics").await;
    assert!(
        answer
            .header("content-type")
            .starts_with("application/openmetrics-text")
    );
    let text = answer.text();
    for line in [
        "posthaste_emails{status=\"pending\"} 0",
        "posthaste_emails{status=\"cancelled\"} 0",
        "posthaste_emails_accepted_total{source=\"api\"} 0",
        "posthaste_attempts_total{transport=\"closed\",outcome=\"sent\"} 0",
        "posthaste_attempt_duration_seconds_count 0",
        "posthaste_time_to_delivery_seconds_count 0",
        "posthaste_retries_due 0",
        "posthaste_retries_requeued_total 0",
        "posthaste_retry_lateness_seconds_count 0",
        "posthaste_dead_total{reason=\"HardBounce\"} 0",
        "posthaste_oldest_pending_age_seconds 0",
        "posthaste_stale_writes_rejected_total 0",
        "posthaste_leases_rescued_total{phase=\"committing\"} 0",
        "posthaste_http_request_duration_seconds_count{route=\"/v1/emails\",method=\"POST\",status=\"202\"} 0",
        "retry_queue_depth 0",
        "posthaste_messages{status=\"pending\"} 0",
        "posthaste_messages{status=\"discarded\"} 0",
        "posthaste_message_lateness_seconds_count 0",
        "posthaste_message_duplicates_total 0",
        "posthaste_message_repeats_total 0",
        "posthaste_message_claims_lost_total 0",
        "posthaste_oldest_message_due_age_seconds 0",
        "posthaste_messages_undecodable_total 0",
        "posthaste_build_info{version=\"1.2.3-test\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
}

#[tokio::test]
async fn retries_of_messages_are_counted_by_queue() {
    let server = Server::start();
    let metrics = &server.message_metrics;
    metrics.scheduled("orders");
    metrics.executed("orders", true);
    metrics.executed("orders", false);
    metrics.exhausted("orders");
    let text = server.get("/metrics").await.text();
    for line in [
        "retries_scheduled_total{queue=\"orders\"} 1",
        "retries_executed_total{queue=\"orders\",status=\"success\"} 1",
        "retries_executed_total{queue=\"orders\",status=\"failed\"} 1",
        "retries_exhausted_total{queue=\"orders\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn gauges_are_read_when_they_are_scraped() {
    let server = Server::start();
    server.accepted(json!({})).await;
    server.sent(json!({})).await;
    let text = server.get("/metrics").await.text();
    assert!(
        text.contains("posthaste_emails{status=\"pending\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("posthaste_emails{status=\"sent\"} 1"),
        "{text}"
    );
}

#[tokio::test]
async fn requests_are_measured_by_route_and_never_by_what_clients_make_up() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    server.get(&format!("/v1/emails/{id}")).await;
    server.get("/made/up").await;
    server.act("BREW", "/v1/stats").await;
    let text = server.get("/metrics").await.text();
    for labels in [
        "route=\"/v1/emails\",method=\"POST\",status=\"202\"",
        "route=\"/v1/emails/{id}\",method=\"GET\",status=\"200\"",
        "route=\"unmatched\",method=\"GET\",status=\"404\"",
        "route=\"/v1/stats\",method=\"other\",status=\"405\"",
    ] {
        let line = format!("posthaste_http_request_duration_seconds_count{{{labels}}} 1");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    assert!(!text.contains(&id) && !text.contains("BREW"));
}

#[tokio::test]
async fn metrics_are_for_this_machine_or_for_a_key_that_may_read() {
    let server = Server::start();
    let (_, read) = server.key("ann", &["read"]).await;
    let (_, send) = server.key("ann", &["send"]).await;
    let away = |mut request: Request<Body>| {
        request
            .extensions_mut()
            .insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 1))));
        request
    };
    assert_eq!(server.get("/metrics").await.status, 200);
    assert_eq!(
        server
            .send(away(with_key("GET", "/metrics", &read)))
            .await
            .status,
        200
    );
    server
        .send(away(with_key("GET", "/metrics", &send)))
        .await
        .is_problem(403);
    let nobody = Request::get("/metrics")
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap();
    server.send(away(nobody)).await.is_problem(401);
}
