//! Inputs that are refused: a 4xx that names the field, and nothing is stored.

use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{email_to, get, post, verify};

on_every_backend! {
    every_bad_input_is_refused_by_name_and_stores_nothing,
    a_body_over_the_limit_is_413,
}

/// An email with one thing wrong, and the field that the answer must name.
fn cases() -> Vec<(Value, &'static str)> {
    let with = |field: &str, value: Value| {
        let mut email = email_to("ann@example.org");
        email[field] = value;
        email
    };
    let long_local = format!("{}@example.org", "a".repeat(65));
    vec![
        (
            with("subject", json!("a\r\nBcc: eve@example.org")),
            "subject",
        ),
        (with("from", json!("Ann\n <ann@example.org>")), "from"),
        (with("to", json!("")), "to"),
        (with("to", json!([])), "to"),
        (with("to", json!("a@b@c")), "to"),
        (with("to", json!(["ann@example.org", long_local])), "to[1]"),
        (with("to", json!("ann(comment)@example.org")), "to"),
        (
            with(
                "to",
                json!(
                    (0..1001)
                        .map(|n| format!("u{n}@example.org"))
                        .collect::<Vec<_>>()
                ),
            ),
            "to",
        ),
        (with("text", Value::Null), "text"),
        (
            with("headers", json!({"X-A": "b\r\nBcc: eve"})),
            "headers.X-A",
        ),
        (
            with("headers", json!({"Message-ID": "<x@y>"})),
            "headers.Message-ID",
        ),
        (
            with(
                "attachments",
                json!([{"filename": "a", "content": "eA=="}, {"filename": "b", "content": "???"}]),
            ),
            "attachments[1].content",
        ),
        (with("send_at", json!("tomorrow")), "send_at"),
        (with("send_at", json!("9999-01-01T00:00:00Z")), "send_at"),
        (
            with("expires_at", json!("2020-01-01T00:00:00Z")),
            "expires_at",
        ),
        (with("message_key", json!("")), "message_key"),
        (with("message_key", json!("k".repeat(256))), "message_key"),
        (with("message_key", json!("a\u{7}")), "message_key"),
        (with("template", json!("welcome")), "template"),
        (with("retry_policy", json!("nonsense")), "retry_policy"),
        (
            with(
                "retry_policy",
                json!({"max_attempts": 0, "backoff": {"schedule": ["1m"]}}),
            ),
            "retry_policy.max_attempts",
        ),
        (
            with(
                "retry_policy",
                json!({"max_attempts": 3, "backoff": {"schedule": []}}),
            ),
            "retry_policy.backoff.schedule",
        ),
        (with("priority", json!("urgent")), "priority"),
        (with("subject", json!(5)), "subject"),
        (with("subjekt", json!("x")), "subjekt"),
    ]
}

async fn every_bad_input_is_refused_by_name_and_stores_nothing(backend: &Backend) {
    let server = backend.posthaste().start().await;
    for (email, field) in cases() {
        let answer = post(&server, "/v1/emails", &email).await;
        assert!(
            (400..500).contains(&answer.status),
            "{field}: {} {}",
            answer.status,
            answer.body
        );
        let errors = answer.body["errors"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let named = errors.iter().any(|error| {
            error["field"]
                .as_str()
                .is_some_and(|named| named.starts_with(field))
        });
        assert!(named, "{field} is not named in {}", answer.body);
        assert!(
            errors
                .iter()
                .all(|error| !error["message"].as_str().unwrap_or_default().is_empty())
        );
    }
    let stats = get(&server, "/v1/stats").await;
    assert!(
        stats.body["emails"]
            .as_object()
            .unwrap()
            .values()
            .all(|n| n == 0),
        "{}",
        stats.body
    );
    let listed = get(&server, "/v1/emails").await;
    assert_eq!(listed.body["data"], json!([]));
    verify(&server).await;
}

async fn a_body_over_the_limit_is_413(backend: &Backend) {
    let server = backend.posthaste().start().await;
    let mut email = email_to("ann@example.org");
    email["text"] = json!("x".repeat(26 * 1024 * 1024));
    let answer = post(&server, "/v1/emails", &email).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert_eq!(get(&server, "/v1/emails").await.body["data"], json!([]));
}
