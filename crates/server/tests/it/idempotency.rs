//! One key, one email.

use std::sync::Arc;

use axum::body::Body;
use serde_json::{Value, json};

use crate::fixture::{Answer, Server, email, local};

async fn post_with_header(server: &Server, key: &str, patch: Value) -> Answer {
    let request = local("POST", "/v1/emails")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(email(patch).to_string()))
        .unwrap();
    server.send(request).await
}

#[tokio::test]
async fn a_new_email_is_202_with_its_id_status_and_key() {
    let server = Server::start();
    let answer = server
        .post("/v1/emails", &email(json!({"message_key": "k"})))
        .await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("idempotent-replayed"), "");
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 3);
    assert_eq!(
        (&body["status"], &body["message_key"]),
        (&json!("pending"), &json!("k"))
    );
    assert_eq!(body["id"].as_str().unwrap().len(), 36);
}

#[tokio::test]
async fn without_a_key_the_id_is_the_key() {
    let server = Server::start();
    let body = server.post("/v1/emails", &email(json!({}))).await.json();
    assert_eq!(body["message_key"], body["id"]);
}

#[tokio::test]
async fn the_key_that_the_answer_names_is_as_good_as_one_of_the_callers() {
    let server = Server::start();
    let first = server.post("/v1/emails", &email(json!({}))).await.json();
    let with = |patch: Value| {
        let mut again = email(patch);
        again["message_key"] = first["message_key"].clone();
        again
    };
    let same = server.post("/v1/emails", &with(json!({}))).await;
    assert_eq!(same.status, 200);
    assert_eq!(same.json()["id"], first["id"]);
    let other = with(json!({"subject": "Another"}));
    let other = server.post("/v1/emails", &other).await;
    assert_eq!(other.is_problem(422).fields(), ["message_key"]);
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 1);
}

#[tokio::test]
async fn the_same_key_again_gives_the_same_email_in_its_present_state() {
    let server = Server::start();
    let id = server.sent(json!({"message_key": "k"})).await;
    let again = server
        .post("/v1/emails", &email(json!({"message_key": "k"})))
        .await;
    assert_eq!(again.status, 200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        again.json(),
        json!({"id": id, "status": "sent", "message_key": "k"})
    );
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 1);
}

#[tokio::test]
async fn the_same_key_for_other_content_is_422() {
    let server = Server::start();
    server.accepted(json!({"message_key": "k"})).await;
    let other = email(json!({"message_key": "k", "subject": "Another"}));
    let answer = server.post("/v1/emails", &other).await;
    assert_eq!(answer.is_problem(422).fields(), ["message_key"]);
}

#[tokio::test]
async fn the_order_of_fields_does_not_matter() {
    let server = Server::start();
    let one = r#"{"message_key":"k","from":"a@example.org","to":"b@example.org","text":"x","metadata":{"a":"1","b":"2"}}"#;
    let two = r#"{"metadata":{"b":"2","a":"1"},"text":"x","to":["b@example.org"],"from":"a@example.org","message_key":"k"}"#;
    assert_eq!(server.post_text("/v1/emails", one).await.status, 202);
    assert_eq!(server.post_text("/v1/emails", two).await.status, 200);
}

#[tokio::test]
async fn the_header_is_as_good_as_the_field() {
    let server = Server::start();
    let first = post_with_header(&server, "k", json!({})).await;
    assert_eq!(first.json()["message_key"], "k");
    let again = server
        .post("/v1/emails", &email(json!({"message_key": "k"})))
        .await;
    assert_eq!(again.json()["id"], first.json()["id"]);
    let both = post_with_header(&server, "k", json!({"message_key": "k"})).await;
    assert_eq!(both.status, 200);
}

#[tokio::test]
async fn a_header_that_differs_from_the_field_is_422() {
    let server = Server::start();
    let answer = post_with_header(&server, "one", json!({"message_key": "two"})).await;
    assert_eq!(answer.is_problem(422).fields(), ["message_key"]);
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 0);
}

#[tokio::test]
async fn the_same_key_many_times_at_once_is_one_email() {
    let server = Arc::new(Server::start());
    let posts = (0..50).map(|_| {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            server
                .post("/v1/emails", &email(json!({"message_key": "k"})))
                .await
        })
    });
    let mut ids = Vec::new();
    let mut accepted = 0;
    for post in posts.collect::<Vec<_>>() {
        let answer = post.await.unwrap();
        assert!(
            answer.status == 200 || answer.status == 202,
            "{}",
            answer.text()
        );
        accepted += u32::from(answer.status == 202);
        ids.push(answer.json()["id"].clone());
    }
    ids.dedup();
    assert_eq!((ids.len(), accepted), (1, 1));
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 1);
}

#[tokio::test]
async fn one_owners_key_does_not_meet_anothers() {
    let server = Server::start();
    let (_, ann) = server.key("ann", &["send"]).await;
    let (_, bob) = server.key("bob", &["send"]).await;
    let post = |secret: &str, subject: &str| {
        local("POST", "/v1/emails")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {secret}"))
            .body(Body::from(
                email(json!({"message_key": "k", "subject": subject})).to_string(),
            ))
            .unwrap()
    };
    assert_eq!(server.send(post(&ann, "a")).await.status, 202);
    assert_eq!(server.send(post(&bob, "b")).await.status, 202);
}
