//! What providers say later, by HTTP.

use axum::body::Body;
use axum::extract::ConnectInfo;
use posthaste_core::decision::Conclusion;
use posthaste_core::status::Outcome;
use posthaste_server::Limits;
use serde_json::{Value, json};
use std::net::SocketAddr;

use crate::fixture::{Server, local};
use crate::provider::post;

async fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/emails/{id}")).await.json()
}

#[tokio::test]
async fn what_came_back_is_dead_and_its_address_gets_nothing_any_more() {
    let server = Server::start();
    let bounced = server
        .sent_as("m-1", json!({"to": "Bob@example.net"}))
        .await;
    let complained = server
        .sent_as("m-2", json!({"to": "eve@example.net"}))
        .await;
    let arrived = server.sent_as("m-3", json!({})).await;

    let answer = server
        .hears("bounced m-1\ncomplained m-2\ndelivered m-3\nbounced m-9")
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json(),
        json!({"recorded": 2, "unchanged": 1, "not_ours": 1})
    );
    for (id, status, reason) in [
        (&bounced, "dead", json!("HardBounce")),
        (&complained, "dead", json!("SpamComplaint")),
        (&arrived, "sent", Value::Null),
    ] {
        let email = shown(&server, id).await;
        assert_eq!(
            (&email["status"], &email["dead_reason"]),
            (&json!(status), &reason)
        );
    }
    let list = server.get("/v1/suppressions").await.json();
    let entry = |at: usize| {
        let entry = &list["data"][at];
        (
            entry["address"].clone(),
            entry["reason"].clone(),
            entry["email_id"].clone(),
        )
    };
    assert_eq!(
        entry(0),
        (
            json!("bob@example.net"),
            json!("HardBounce"),
            json!(bounced)
        )
    );
    assert_eq!(
        entry(1),
        (
            json!("eve@example.net"),
            json!("SpamComplaint"),
            json!(complained)
        )
    );
    // All of it may come again.
    let again = server.hears("bounced m-1\ncomplained m-2").await.json();
    assert_eq!(again, json!({"recorded": 0, "unchanged": 2, "not_ours": 0}));
}

#[tokio::test]
async fn an_uncertain_email_is_settled_by_a_delivered_one() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    server
        .finish_as(&id, "m-1", Conclusion::Hold, Outcome::Unknown)
        .await;
    assert_eq!(shown(&server, &id).await["status"], "unknown");
    let answer = server.hears("delivered m-1").await;
    assert_eq!(answer.json()["recorded"], 1);
    let email = shown(&server, &id).await;
    assert_eq!(email["status"], "sent");
    assert_eq!(email["attempts"][0]["provider_id"], "m-1");
}

#[tokio::test]
async fn what_is_not_taken_says_why() {
    let server = Server::start();
    let cases: [(&str, &str, &str, u16, &str); 6] = [
        (
            "closed",
            "wrong",
            "delivered m-1",
            401,
            "the signature is wrong",
        ),
        ("closed", "right", "nonsense", 422, "it is no event"),
        ("closed", "right", "later", 503, "the certificate is away"),
        ("spare", "right", "delivered m-1", 404, "listens"),
        ("nobody", "right", "delivered m-1", 404, "listens"),
        ("%ff", "right", "delivered m-1", 404, "listens"),
    ];
    for (transport, signature, body, status, why) in cases {
        let answer = server.send(post(transport, signature, body)).await;
        let text = answer.is_problem(status).text();
        assert!(text.contains(why), "{body}: {text}");
        assert_eq!(
            answer.headers.contains_key("retry-after"),
            status == 503,
            "{body}"
        );
        // A key would not help.
        assert!(!answer.headers.contains_key("www-authenticate"), "{body}");
        assert!(!text.contains("API key"), "{text}");
    }
    // Nothing to say is fine: most of what providers post does not concern us.
    let answer = server.hears("").await;
    assert_eq!(
        answer.json(),
        json!({"recorded": 0, "unchanged": 0, "not_ours": 0})
    );
}

#[tokio::test]
async fn one_that_is_being_sent_is_heard_of_later() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let text = format!("delivered m-1 {id}");
    assert_eq!(server.hears(&text).await.json()["not_ours"], 1);
    server.begin(&id).await;
    let answer = server.hears(&text).await;
    answer.is_problem(503);
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_store_that_cannot_write_is_the_providers_cue_to_say_it_again() {
    let server = Server::start();
    server.sent_as("m-1", json!({})).await;
    let connection = rusqlite::Connection::open(server.database()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = server.hears("bounced m-1").await;
    answer.is_problem(503);
    assert!(answer.headers.contains_key("retry-after"));
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.hears("bounced m-1").await.json()["recorded"], 1);
}

#[tokio::test]
async fn providers_need_no_key_from_wherever_they_come_and_whoever_has_keys() {
    let server = Server::start();
    let far_away = || {
        let mut request = post("closed", "right", "delivered m-1");
        let peer = SocketAddr::from(([10, 0, 0, 1], 50_000));
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    };
    assert_eq!(server.send(far_away()).await.status, 200);
    server.key("ann", &["read"]).await;
    assert_eq!(server.send(far_away()).await.status, 200);
    // A key that is known to nobody matters as little: the signature is the credential.
    let mut request = far_away();
    let key = "Bearer ph_wrong".parse().unwrap();
    request.headers_mut().insert("authorization", key);
    assert_eq!(server.send(request).await.status, 200);
}

#[tokio::test]
async fn a_post_has_an_end_and_the_usual_limits() {
    let server = Server::start();
    let large = "x".repeat(1024 * 1024 + 1);
    server
        .send(post("closed", "wrong", large))
        .await
        .is_problem(413);
    let largest = "x".repeat(1024 * 1024);
    server
        .send(post("closed", "wrong", largest))
        .await
        .is_problem(401);
    let full = Server::start_with(Limits {
        in_flight_requests: 0,
        ..Limits::default()
    });
    full.hears("delivered m-1").await.is_problem(503);
    let get = local("GET", "/v1/provider-events/closed").body(Body::empty());
    server.send(get.unwrap()).await.is_problem(405);
}
