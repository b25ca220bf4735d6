//! Many emails at once.

use axum::body::Body;
use serde_json::{Value, json};

use crate::fixture::{Server, email, local};

async fn batch(server: &Server, emails: Value) -> Vec<Value> {
    let answer = server
        .post("/v1/emails/batch", &json!({"emails": emails}))
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn one_bad_entry_spoils_no_other_and_the_order_is_kept() {
    let server = Server::start();
    let entries = json!([
        email(json!({"message_key": "a"})),
        email(json!({"to": "nobody"})),
        email(json!({"text": 5})),
        5,
        email(json!({"message_key": "b"})),
        email(json!({"message_key": "a", "subject": "Another"})),
        email(json!({"message_key": "a"})),
        email(json!({"delivery": "inline"})),
    ]);
    let data = batch(&server, entries).await;
    let field = |index: usize| data[index]["error"]["errors"][0]["field"].clone();
    assert_eq!(data.len(), 8);
    assert_eq!(data[0]["message_key"], "a");
    assert_eq!(field(1), "to[0]");
    assert_eq!(field(2), "text");
    assert_eq!(data[3]["error"]["status"], 422);
    assert_eq!(data[4]["message_key"], "b");
    assert_eq!(field(5), "message_key");
    assert_eq!(data[6]["id"], data[0]["id"]);
    assert_eq!(field(7), "delivery");
    let advice = data[7]["error"]["errors"][0]["message"].as_str().unwrap();
    assert!(advice.contains("POST /v1/emails,"), "{advice}");
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 2);
}

#[tokio::test]
async fn a_thousand_are_taken_and_one_more_is_refused() {
    let server = Server::start();
    let entries = vec![email(json!({})); 1_000];
    let data = batch(&server, json!(entries)).await;
    assert!(data.iter().all(|entry| entry["status"] == "pending"));

    let entries = vec![email(json!({})); 1_001];
    let answer = server
        .post("/v1/emails/batch", &json!({"emails": entries}))
        .await;
    assert_eq!(answer.is_problem(422).fields(), ["emails"]);
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 1_000);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let server = Server::start();
    for (body, status, field) in [
        (r#"{"emails":[]}"#, 422, &["emails"][..]),
        (r#"{"emails":{}}"#, 422, &["emails"]),
        (r#"{"email":[]}"#, 422, &["email"]),
        ("{}", 422, &["emails"]),
        ("[]", 422, &[]),
        (r#"{"emails":[{"from":1}"#, 400, &["emails"]),
        (r#"{"emails":[],"emails":[]}"#, 422, &["emails"]),
    ] {
        let answer = server.post_text("/v1/emails/batch", body).await;
        assert_eq!(answer.is_problem(status).fields(), field, "{body}");
    }
}

#[tokio::test]
async fn a_key_for_the_whole_batch_is_refused() {
    let server = Server::start();
    let request = local("POST", "/v1/emails/batch")
        .header("content-type", "application/json")
        .header("idempotency-key", "k")
        .body(Body::from(
            json!({"emails": [email(json!({}))]}).to_string(),
        ))
        .unwrap();
    let answer = server.send(request).await;
    assert_eq!(answer.is_problem(422).fields(), ["Idempotency-Key"]);
}
