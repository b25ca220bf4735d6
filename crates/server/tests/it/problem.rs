//! Errors have one shape, whatever goes wrong.

use std::time::Duration;

use axum::body::Body;
use posthaste_server::Limits;
use serde_json::json;

use crate::fixture::{Server, email, local};

#[tokio::test]
async fn every_error_is_a_problem() {
    let server = Server::start();
    server.get("/nothing/here").await.is_problem(404);
    server.get("/v1/emails/").await.is_problem(404);
    let answer = server.act("PUT", "/v1/emails").await;
    answer.is_problem(405);
    assert!(
        answer.header("allow").contains("POST"),
        "{}",
        answer.header("allow")
    );
    server.act("BREW", "/v1/stats").await.is_problem(405);
    server.post_text("/v1/emails", "{").await.is_problem(400);
}

#[tokio::test]
async fn a_client_that_asks_for_json_only_gets_the_same_as_json() {
    let server = Server::start();
    for (accept, content_type) in [
        ("application/json", "application/json"),
        ("text/csv, application/json;q=0.5", "application/json"),
        ("application/json, */*", "application/problem+json"),
        (
            "application/json, application/problem+json",
            "application/problem+json",
        ),
        ("application/*", "application/problem+json"),
        ("text/html", "application/problem+json"),
    ] {
        let request = local("GET", "/v1/emails/x")
            .header("accept", accept)
            .body(Body::empty())
            .unwrap();
        let answer = server.send(request).await;
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["status"]),
            (404, &json!(404))
        );
    }
}

#[tokio::test]
async fn a_person_gets_a_page_where_pages_are() {
    let server = Server::start();
    let request = local("GET", "/admin/inbox/<b>")
        .header("accept", "text/html,*/*")
        .body(Body::empty());
    assert!(request.is_err(), "not a valid address");
    let request = local("GET", "/admin/inbox/x")
        .header("accept", "text/html,*/*")
        .body(Body::empty())
        .unwrap();
    let answer = server.send(request).await;
    assert_eq!(answer.status, 404);
    assert!(answer.header("content-type").starts_with("text/html"));
    assert!(answer.text().contains("There is no email with this id."));
    let request = local("GET", "/admin/inbox")
        .header("accept", "text/html")
        .header("authorization", "Bearer ph_wrong")
        .body(Body::empty())
        .unwrap();
    let answer = server.send(request).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("www-authenticate")),
        (401, "Bearer")
    );
}

#[tokio::test]
async fn too_many_requests_at_once_are_503_and_health_is_still_answered() {
    let server = Server::start_with(Limits {
        in_flight_requests: 0,
        ..Limits::default()
    });
    let answer = server.post("/v1/emails", &email(json!({}))).await;
    assert!(!answer.is_problem(503).header("retry-after").is_empty());
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn no_room_for_large_bodies_is_503_and_small_ones_pass() {
    let server = Server::start_with(Limits {
        all_bodies_bytes: 100 * 1024,
        ..Limits::default()
    });
    let large = email(json!({"text": "x".repeat(2_000_000)}));
    let answer = server.post("/v1/emails", &large).await;
    assert!(!answer.is_problem(503).header("retry-after").is_empty());
    server.accepted(json!({})).await;
    // The room is given back.
    let medium = email(json!({"text": "x".repeat(100_000)}));
    for _ in 0..5 {
        assert_eq!(server.post("/v1/emails", &medium).await.status, 202);
    }
}

#[tokio::test]
async fn a_body_that_never_arrives_is_408() {
    let server = Server::start_with(Limits {
        request_timeout: Duration::from_millis(50),
        ..Limits::default()
    });
    let never = Body::from_stream(futures_util::stream::pending::<
        Result<Vec<u8>, std::io::Error>,
    >());
    server.post_text("/v1/emails", never).await.is_problem(408);
}

#[tokio::test]
async fn a_store_that_cannot_write_is_503_with_nothing_stored_and_works_again_by_itself() {
    let server = Server::start();
    let blocker = rusqlite::Connection::open(server.database()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();

    let answer = server
        .post("/v1/emails", &email(json!({"message_key": "k"})))
        .await;
    assert!(!answer.is_problem(503).header("retry-after").is_empty());
    assert!(!answer.text().contains("database"), "{}", answer.text());
    let entries = json!({"emails": [email(json!({})), email(json!({"to": "nobody"}))]});
    server
        .post("/v1/emails/batch", &entries)
        .await
        .is_problem(503);
    let ready = server.get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), &ready.json()["store"]),
        (503, &json!("unavailable"))
    );
    assert_eq!(server.get("/livez").await.status, 200);
    assert_eq!(server.get("/metrics").await.status, 200);

    blocker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 0);
    server.accepted(json!({"message_key": "k"})).await;
    assert_eq!(server.get("/readyz").await.status, 200);
}
