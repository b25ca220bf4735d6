//! Seed 004's acceptance points 8 and 9, in a browser: the card, the queue, Retry and Dismiss.

use posthaste_sink::{Mode, Sink};
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::browser::Browser;
use crate::support::{FAR_AWAY, a_sink, get, post, submit, until, verify};

fn outbox_email(recipient: &str) -> Value {
    json!({
        "from": "host@example.org", "to": recipient, "subject": "Booking confirmed",
        "text": "See you on Monday.", "retry_policy": "outbox",
    })
}

struct Desk {
    sink: Sink,
    server: Posthaste,
    browser: Browser,
    _backend: Backend,
}

async fn set_up() -> Desk {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).env(FAR_AWAY.0, FAR_AWAY.1);
    Desk {
        server: server.start().await,
        browser: Browser::start().await,
        sink,
        _backend: backend,
    }
}

async fn dashboard(server: &Posthaste) -> (u64, u64) {
    let numbers = get(server, "/api/admin/dashboard").await.body;
    let count = |name: &str| numbers[name].as_u64().unwrap();
    (count("pendingEmailCount"), count("failedEmailCount"))
}

async fn row(server: &Posthaste, id: &str) -> Value {
    let rows = get(server, "/api/admin/outbox").await.body;
    let found = rows.as_array().unwrap().iter().find(|row| row["id"] == id);
    found.cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn point_8_the_dashboard_shows_what_is_pending_and_what_failed() {
    let desk = set_up().await;
    let (sink, server, browser) = (&desk.sink, &desk.server, &desk.browser);
    browser.open(&server.url("/admin")).await;
    browser.until_shows("#card-email-queue", "Healthy").await;
    browser.picture("seed-004-8-healthy").await;
    sink.set_mode(Mode::TempfailAll);
    let pending = submit(server, &outbox_email("guest@example.org")).await;
    until(server, &pending, "failed").await;
    browser.until_shows("#card-email-queue", "1 pending").await;
    sink.set_mode(Mode::RejectAll);
    let failed = submit(server, &outbox_email("gone@example.org")).await;
    until(server, &failed, "dead").await;
    browser.until_shows("#card-email-queue", "1 failed").await;
    browser.picture("seed-004-8-mixed").await;
    assert_eq!(dashboard(server).await, (1, 1));
    browser
        .find("#card-email-queue")
        .await
        .click()
        .await
        .unwrap();
    browser.until_shows("h1", "Email queue").await;
    assert_eq!(browser.path().await, "/admin/email-queue");
}

#[tokio::test]
async fn point_9_the_queue_lists_entries_and_failed_ones_can_be_retried_and_dismissed() {
    let desk = set_up().await;
    let (sink, server, browser) = (&desk.sink, &desk.server, &desk.browser);
    browser.open(&server.url("/admin/email-queue")).await;
    browser.until_shows(".empty.good", "healthy").await;
    sink.set_mode(Mode::RejectAll);
    let (retried, dismissed) = (
        submit(server, &outbox_email("one@example.org")).await,
        submit(server, &outbox_email("two@example.org")).await,
    );
    for id in [&retried, &dismissed] {
        until(server, id, "dead").await;
    }
    sink.set_mode(Mode::TempfailAll);
    let pending = submit(server, &outbox_email("three@example.org")).await;
    until(server, &pending, "failed").await;
    browser.reload().await;
    let row_of = |id: &str| format!("tr[data-key=\"{id}\"]");
    assert!(browser.text(&row_of(&retried)).await.contains("failed"));
    let waiting = browser.text(&row_of(&pending)).await;
    assert!(
        waiting.contains("pending") && waiting.contains("1 of 5"),
        "{waiting}"
    );
    assert_eq!(
        browser.count(&format!("{} button", row_of(&pending))).await,
        0
    );
    browser.picture("seed-004-9-queue").await;

    browser.press(&row_of(&retried), "Retry").await;
    browser.until_shows(".notice", "tried again").await;
    // Refused again, but not for good: it has used one attempt of a fresh budget.
    until(server, &retried, "failed").await;
    let entry = row(server, &retried).await;
    assert_eq!(
        (&entry["status"], &entry["maxAttempts"]),
        (&json!("pending"), &json!(5))
    );
    assert_eq!(entry["attempts"], 1);

    browser.press(&row_of(&dismissed), "Dismiss").await;
    browser.until_shows(".notice", "discarded").await;
    assert_eq!(browser.count(&row_of(&dismissed)).await, 0);
    assert_eq!(row(server, &dismissed).await, Value::Null);
    assert_eq!(dashboard(server).await, (2, 0));
    verify(server).await;
}

#[tokio::test]
async fn a_retried_entry_starts_over_now_and_a_pending_one_cannot_be_dismissed() {
    let (backend, sink) = (Backend::postgres().await, a_sink().await);
    let api = backend.sending_to(&sink).role("api").start().await;
    let mut sender = backend.sending_to(&sink).role("sender").start().await;
    sink.set_mode(Mode::RejectAll);
    let id = submit(&api, &outbox_email("one@example.org")).await;
    until(&api, &id, "dead").await;
    // Nobody sends any more, so that the entry is seen as the retry leaves it.
    assert_eq!(sender.terminate().await, Some(0));
    let before = row(&api, &id).await;
    assert_eq!(
        (&before["status"], &before["attempts"]),
        (&json!("failed"), &json!(1))
    );
    assert!(
        before["lastError"].as_str().unwrap().starts_with("550"),
        "{before}"
    );

    let retried = post(&api, &format!("/api/admin/outbox/{id}/retry"), &json!({})).await;
    assert_eq!(retried.status, 200, "{}", retried.body);
    let entry = row(&api, &id).await;
    assert_eq!(entry["status"], "pending");
    assert_eq!(
        (&entry["attempts"], &entry["maxAttempts"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(entry["lastError"], Value::Null);
    let stored = backend.row(&id).await;
    assert!(stored.next_attempt_at.unwrap() <= stored.now, "{stored:?}");

    for (method, path) in [
        (reqwest::Method::DELETE, format!("/api/admin/outbox/{id}")),
        (
            reqwest::Method::POST,
            format!("/api/admin/outbox/{id}/retry"),
        ),
    ] {
        let (status, _, body) = api.answer(api.request(method, &path)).await;
        assert_eq!(status.as_u16(), 409, "{path}: {body}");
    }
    verify(&api).await;
}
