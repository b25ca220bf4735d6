//! Acting on messages, and being refused.

use std::time::Duration;

use posthaste_core::message::{Failure, MessageRecord, Outcome};
use posthaste_core::port::{MessageStore, Settled, Store as _};
use serde_json::{Value, json};

use crate::fixture::{Server, with_key};
use crate::messages::{failure, hand_in, policy, shown};

const LEASE: Duration = Duration::from_secs(60);

/// A republisher takes the one message that is due.
async fn claimed(server: &Server) -> MessageRecord {
    let mut claimed = server
        .store
        .claim_messages(10, usize::MAX, LEASE)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 1);
    claimed.remove(0).message
}

/// It does with it what is to be done, and that ends so.
async fn settled(server: &Server, outcome: Outcome) {
    let message = claimed(server).await;
    let now = server.store.now();
    let task = message.state.task(&policy());
    let state = message.state.settled(&task, &outcome, &policy(), now, 0.0);
    let number = message.number;
    let settled = server
        .store
        .settle_messages(vec![Settled { number, state }])
        .await;
    assert_eq!(settled.unwrap(), [true]);
}

async fn acted(server: &Server, id: &str, action: &str) -> Value {
    let path = format!("/v1/messages/{id}/{action}");
    let answer = server.act("POST", &path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// A message that is due.
async fn due(server: &Server) -> String {
    let id = hand_in(server, failure()).await;
    acted(server, &id, "retry").await;
    id
}

/// A message that waits for people.
async fn failed(server: &Server) -> String {
    let spent = Failure {
        max_retries: Some(0),
        ..failure()
    };
    let id = hand_in(server, spent).await;
    settled(server, Outcome::Done).await;
    id
}

#[tokio::test]
async fn a_waiting_message_is_due_at_once_when_it_is_retried() {
    let server = Server::start();
    let id = hand_in(&server, failure()).await;
    assert_eq!(
        acted(&server, &id, "retry").await,
        json!({"id": id, "status": "pending", "changed": true})
    );
    let after = shown(&server, &id).await;
    assert_eq!(after["status_text"], "Due (retry 1 of 3)");
    assert!(after["next_retry_at"].as_str() < Some("2100"));
    assert_eq!(claimed(&server).await.id.to_string(), id);
}

#[tokio::test]
async fn a_message_in_review_is_retried_with_a_fresh_budget() {
    let server = Server::start();
    let spent = Failure {
        retry_count: 3,
        ..failure()
    };
    let id = hand_in(&server, spent).await;
    settled(&server, Outcome::Done).await;
    let message = shown(&server, &id).await;
    assert_eq!(
        (&message["status"], &message["status_text"]),
        (&json!("failed"), &json!("In manual review"))
    );
    assert_eq!(message["next_retry_at"], Value::Null);
    assert!(message["finished_at"].is_string());
    let reason = message["last_error"].as_str().unwrap();
    assert!(reason.starts_with("MaxRetriesExceeded"), "{reason}");

    acted(&server, &id, "retry").await;
    let message = shown(&server, &id).await;
    assert_eq!(
        (&message["status"], &message["retry_count"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(
        (&message["finished_at"], &message["last_error"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn a_message_is_discarded_once_and_may_be_taken_up_again() {
    let server = Server::start();
    let id = failed(&server).await;
    for (action, status, changed) in [
        ("discard", "discarded", true),
        ("discard", "discarded", false),
        ("retry", "pending", true),
        ("discard", "discarded", true),
    ] {
        assert_eq!(
            acted(&server, &id, action).await,
            json!({"id": id, "status": status, "changed": changed}),
            "{action}"
        );
    }
    let message = shown(&server, &id).await;
    assert_eq!(message["status_text"], "Discarded");
    assert_eq!(message["next_retry_at"], Value::Null);
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_named() {
    let server = Server::start();
    let id = due(&server).await;
    settled(&server, Outcome::Refused("there is no queue orders".into())).await;
    let message = shown(&server, &id).await;
    assert_eq!(message["last_error"], "there is no queue orders");
    assert_eq!(message["publish_failures"], 1);
    assert_eq!(
        message["status_text"],
        "Could not be republished (1 failed try)"
    );
}

#[tokio::test]
async fn what_the_state_does_not_allow_is_409_and_says_what_to_do() {
    let server = Server::start();
    let retried = due(&server).await;
    settled(&server, Outcome::Done).await;
    let message = shown(&server, &retried).await;
    assert_eq!(message["status_text"], "Republished (retry 1 of 3)");
    let held = due(&server).await;
    claimed(&server).await;
    for (id, advice) in [
        (&retried, "`retried`. It is in its queue again"),
        (&held, "`pending`. It is being put back right now"),
    ] {
        for action in ["retry", "discard"] {
            let path = format!("/v1/messages/{id}/{action}");
            let answer = server.act("POST", &path).await;
            let detail = answer.is_problem(409).json()["detail"].to_string();
            assert!(detail.contains(advice), "{path}: {detail}");
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_404() {
    let server = Server::start();
    let email = server.accepted(json!({})).await;
    let nobody = "01900000-0000-7000-8000-000000000000";
    for id in [nobody, &email, "abc", "%ff", "1", "'%20OR%201=1"] {
        for (method, action) in [("GET", ""), ("POST", "/retry"), ("POST", "/discard")] {
            let path = format!("/v1/messages/{id}{action}");
            let answer = server.act(method, &path).await;
            let detail = &answer.is_problem(404).json()["detail"];
            assert_eq!(detail, "There is no message with this id.");
        }
    }
}

#[tokio::test]
async fn the_audit_log_shows_who_did_what_to_which_message() {
    let server = Server::start();
    let id = due(&server).await;
    let (key, admin) = server.key("ops", &["admin"]).await;
    for _ in 0..2 {
        let path = format!("/v1/messages/{id}/discard");
        let answer = server.send(with_key("POST", &path, &admin)).await;
        assert_eq!(answer.status, 200);
    }
    let page = server.send(with_key("GET", "/v1/audit", &admin)).await;
    let entries = page.json()["data"].as_array().unwrap().clone();
    let about = |entry: &&Value| entry["subject"] == id.as_str();
    let done: Vec<_> = entries
        .iter()
        .filter(about)
        .map(|e| [&e["actor"], &e["action"], &e["result"]].map(|text| text.as_str().unwrap()))
        .collect();
    let key = format!("key:{key}");
    assert_eq!(
        done,
        [
            [key.as_str(), "discard_message", "unchanged"],
            [key.as_str(), "discard_message", "discarded"],
            ["loopback", "retry_message", "pending"],
        ]
    );
}

#[tokio::test]
async fn messages_are_for_administrators_only() {
    let server = Server::start();
    let id = due(&server).await;
    let (_, read) = server.key("ann", &["read"]).await;
    let (_, send) = server.key("ann", &["send"]).await;
    let (_, admin) = server.key("ops", &["admin"]).await;
    for (method, path) in [
        ("GET", "/v1/messages".to_owned()),
        ("GET", format!("/v1/messages/{id}")),
        ("POST", format!("/v1/messages/{id}/retry")),
        ("POST", format!("/v1/messages/{id}/discard")),
    ] {
        server.act(method, &path).await.is_problem(401);
        for key in [&read, &send] {
            let answer = server.send(with_key(method, &path, key)).await;
            assert!(answer.is_problem(403).text().contains("`admin`"));
        }
        let answer = server.send(with_key(method, &path, &admin)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn statistics_and_gauges_count_every_state() {
    let server = Server::start();
    due(&server).await;
    settled(&server, Outcome::Done).await;
    failed(&server).await;
    let discarded = failed(&server).await;
    acted(&server, &discarded, "discard").await;
    for _ in 0..3 {
        hand_in(&server, failure()).await;
    }
    let found = server.get("/v1/stats").await.json();
    assert_eq!(
        found["messages"],
        json!({"pending": 3, "retried": 1, "failed": 1, "discarded": 1})
    );
    let text = server.get("/metrics").await.text();
    for line in [
        "retry_queue_depth 3",
        "posthaste_messages{status=\"pending\"} 3",
        "posthaste_messages{status=\"retried\"} 1",
        "posthaste_messages{status=\"failed\"} 1",
        "posthaste_messages{status=\"discarded\"} 1",
        "posthaste_oldest_message_due_age_seconds 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}
