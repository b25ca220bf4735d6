//! What an email looks like from outside.

use posthaste_core::decision::Conclusion;
use posthaste_core::status::Outcome;
use serde_json::{Value, json};

use crate::fixture::Server;

#[tokio::test]
async fn a_new_email_shows_everything_and_missing_values_are_null() {
    let server = Server::start();
    let id = server
        .accepted(json!({"message_key": "k", "metadata": {"order": "4711"}, "priority": "high"}))
        .await;
    let mut shown = server.get(&format!("/v1/emails/{id}")).await.json();
    for at in ["created_at", "next_attempt_at", "last_queued_at"] {
        let text = shown[at].as_str().unwrap().to_owned();
        assert_eq!(
            (text.len(), text.ends_with('Z')),
            (27, true),
            "{at}: {text}"
        );
        shown[at] = Value::Null;
    }
    assert!(shown["size_bytes"].as_u64().unwrap() > 100);
    shown["size_bytes"] = Value::Null;
    assert_eq!(
        shown,
        json!({
            "id": id, "status": "pending", "status_text": "Waiting", "message_key": "k",
            "owner": "default", "from": "Shop <shop@example.org>", "to": ["ann@example.net"],
            "subject": "Your order", "template": null, "priority": "high",
            "delivery": "queued", "metadata": {"order": "4711"}, "attempt_count": 0, "max_attempts": 8,
            "next_attempt_at": null, "route": "default", "waiting_for": null, "last_error": null, "error_class": null,
            "dead_reason": null, "fingerprint": null, "possible_duplicate": false,
            "sent_at": null, "created_at": null, "send_at": null, "expires_at": null,
            "last_queued_at": null, "finished_at": null, "erased_at": null, "size_bytes": null,
            "recipients": null, "retry_policy": "email", "attempts": [],
        })
    );
}

#[tokio::test]
async fn a_dead_email_shows_its_attempt_and_what_it_died_of() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    assert_eq!(shown["status"], "dead");
    assert_eq!(shown["status_text"], "Failed (moved to dead letter queue)");
    assert_eq!(shown["dead_reason"], "HardBounce");
    assert_eq!(shown["error_class"], "mailbox_unknown");
    let attempt = &shown["attempts"][0];
    assert_eq!(attempt["number"], 1);
    assert_eq!(attempt["outcome"], "permanent");
    assert_eq!(attempt["reply"], "550 5.1.1 no such user");
    assert_eq!(
        (&attempt["transport"], &attempt["worker"]),
        (&json!("closed"), &json!("worker-1"))
    );
    assert_eq!(
        (&attempt["counted"], &attempt["provider_id"]),
        (&json!(true), &Value::Null)
    );
    for name in ["started_at", "finished_at", "error_class", "error"] {
        assert!(attempt[name].is_string(), "{name}");
    }
}

#[tokio::test]
async fn several_recipients_are_shown_each_for_itself() {
    let server = Server::start();
    let id = server
        .accepted(json!({"to": ["a@example.org", "b@example.org"], "bcc": "c@example.org"}))
        .await;
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    let addresses: Vec<_> = shown["recipients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["address"].clone())
        .collect();
    assert_eq!(
        addresses,
        ["a@example.org", "b@example.org", "c@example.org"]
    );
    assert_eq!(shown["recipients"][0]["status"], "waiting");
    assert_eq!(shown["recipients"][0]["detail"], Value::Null);
}

#[tokio::test]
async fn a_policy_of_its_own_is_shown_as_it_was_given() {
    let server = Server::start();
    let policy = json!({"max_attempts": 3, "backoff": {"schedule": ["1m", "5m"]}, "jitter": "30s",
        "on_unknown": "hold", "max_unknown_resends": 0, "expire_after": "1d"});
    let id = server.accepted(json!({"retry_policy": policy})).await;
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    assert_eq!(shown["retry_policy"], policy);
    assert_eq!(shown["max_attempts"], 3);
    assert!(shown["expires_at"].is_string());
}

#[tokio::test]
async fn a_failed_email_says_which_attempt_comes_next() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let again = Conclusion::Retry {
        delay: std::time::Duration::from_secs(60),
        possible_duplicate: false,
    };
    server.attempt(&id, Outcome::Transient, again).await;
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    assert_eq!(shown["status_text"], "Retrying (attempt 2 of 8)");
    assert_eq!(shown["attempt_count"], 1);
}

#[tokio::test]
async fn statistics_count_every_state() {
    let server = Server::start();
    let empty = server.get("/v1/stats").await.json();
    assert_eq!(empty["emails"].as_object().unwrap().len(), 9);
    assert_eq!(
        (&empty["success_rate_24h"], &empty["oldest_waiting_seconds"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        empty["messages"],
        json!({"pending": 0, "retried": 0, "failed": 0, "discarded": 0})
    );

    server.accepted(json!({})).await;
    for _ in 0..3 {
        server.sent(json!({})).await;
    }
    server.dead(json!({})).await;
    let id = server.accepted(json!({})).await;
    let again = Conclusion::Retry {
        delay: std::time::Duration::from_secs(60),
        possible_duplicate: false,
    };
    server.attempt(&id, Outcome::Transient, again).await;

    let found = server.get("/v1/stats").await.json();
    assert_eq!(found["emails"]["pending"], 1);
    assert_eq!(found["emails"]["sent"], 3);
    assert_eq!(
        (&found["in_retry"], &found["dead_letters"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(found["success_rate_24h"], 0.75);
    assert_eq!(
        (&found["sent_last_hour"], &found["sent_last_day"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        (&found["accepted"], &found["pruned"]),
        (&json!(6), &json!(0))
    );
    assert_eq!(found["oldest_waiting_seconds"], 0);
}
