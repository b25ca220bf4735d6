//! Seed 004's routes: an array of entries, `pending` and `failed`, Retry and Dismiss.

use serde_json::{Value, json};

use crate::fixture::{Server, with_key};

async fn outbox(server: &Server) -> Vec<Value> {
    let answer = server.get("/api/admin/outbox").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().clone()
}

#[tokio::test]
async fn an_entry_has_the_names_of_the_seed_and_nothing_else() {
    let server = Server::start();
    let id = server
        .accepted(json!({"retry_policy": "outbox", "subject": "Booking"}))
        .await;
    let entries = outbox(&server).await;
    assert_eq!(entries.len(), 1);
    let entry = entries[0].as_object().unwrap();
    let mut names: Vec<_> = entry.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "attempts",
            "createdAt",
            "id",
            "lastError",
            "maxAttempts",
            "nextRetryAt",
            "status",
            "subject",
            "toAddress"
        ]
    );
    assert_eq!(entry["id"], id.as_str());
    assert_eq!(entry["toAddress"], "ann@example.net");
    assert_eq!(
        (&entry["status"], &entry["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(entry["maxAttempts"], 5);
}

#[tokio::test]
async fn sent_emails_are_not_in_the_outbox_and_dead_ones_have_failed() {
    let server = Server::start();
    server.sent(json!({})).await;
    let id = server.dead(json!({"retry_policy": "outbox"})).await;
    let entries = outbox(&server).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["id"], &entries[0]["status"]),
        (&json!(id), &json!("failed"))
    );
    let numbers = server.get("/api/admin/dashboard").await.json();
    assert_eq!(
        numbers,
        json!({"pendingEmailCount": 0, "failedEmailCount": 1})
    );
}

#[tokio::test]
async fn a_failed_entry_can_be_retried_once_and_another_dismissed() {
    let server = Server::start();
    let (retried, dismissed) = (
        server.dead(json!({"retry_policy": "outbox"})).await,
        server.dead(json!({"retry_policy": "outbox"})).await,
    );
    let path = format!("/api/admin/outbox/{retried}/retry");
    assert_eq!(server.act("POST", &path).await.status, 200);
    let again = server.act("POST", &path).await;
    assert_eq!(again.status, 409, "{}", again.text());
    let path = format!("/api/admin/outbox/{dismissed}");
    assert_eq!(server.act("DELETE", &path).await.status, 204);
    assert_eq!(
        server.act("DELETE", &path).await.status,
        404,
        "it is not there any more"
    );
    let entries = outbox(&server).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["status"], &entries[0]["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(entries[0]["lastError"], Value::Null);
    let numbers = server.get("/api/admin/dashboard").await.json();
    assert_eq!(
        numbers,
        json!({"pendingEmailCount": 1, "failedEmailCount": 0})
    );
}

#[tokio::test]
async fn a_pending_entry_cannot_be_dismissed() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let answer = server
        .act("DELETE", &format!("/api/admin/outbox/{id}"))
        .await;
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert_eq!(outbox(&server).await.len(), 1);
}

#[tokio::test]
async fn another_owner_sees_and_changes_nothing() {
    let server = Server::start();
    let id = server.dead(json!({"retry_policy": "outbox"})).await;
    let (_, reader) = server.key("other", &["read"]).await;
    let answer = server
        .send(with_key("GET", "/api/admin/outbox", &reader))
        .await;
    assert_eq!(answer.json(), json!([]));
    let path = format!("/api/admin/outbox/{id}/retry");
    let answer = server.send(with_key("POST", &path, &reader)).await;
    assert_eq!(answer.status, 403);
}
