//! Seed 004's acceptance points about the operator: 8 and 9.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, text, time};

/// A booking whose confirmation failed until it was given up. The mail server is still down.
async fn a_failed_entry(world: &World) -> Value {
    world.mail_server.kill().await;
    let known: Vec<_> = world.entries().await;
    world.book().await;
    world.settle().await;
    for seconds in [30, 60, 120, 240, 480] {
        let due = world.now() + Duration::from_secs(seconds);
        world.advance_past(due).await;
    }
    let mut entries = world.entries().await;
    entries.retain(|entry| known.iter().all(|other| other["id"] != entry["id"]));
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["status"], "failed");
    entries.remove(0)
}

/// What Retry makes of a failed row.
fn starts_over_now(world: &World, entry: &Value) {
    assert_eq!(entry["status"], "pending");
    assert_eq!(entry["attempts"], 0);
    assert_eq!(entry["maxAttempts"], 5);
    assert_eq!(time(&entry["nextRetryAt"]), world.now());
    assert_eq!(entry["lastError"], Value::Null);
}

/// The token that the forms of a page carry.
fn token_in(page: &str) -> &str {
    let (_, rest) = page.split_once("data-csrf=\"").expect(page);
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn point_8_the_dashboard_shows_how_many_are_pending_and_how_many_failed() {
    let mut world = World::start().await;
    let counts = async |world: &World| world.get("/api/admin/dashboard").await.body;
    let are = |pending, failed| json!({"pendingEmailCount": pending, "failedEmailCount": failed});
    assert_eq!(counts(&world).await, are(0, 0));
    a_failed_entry(&world).await;
    assert_eq!(counts(&world).await, are(0, 1));

    world.book().await;
    world.settle().await;
    assert_eq!(counts(&world).await, are(1, 1));

    world.mail_server.restart().await;
    world
        .advance_past(world.now() + Duration::from_secs(30))
        .await;
    assert_eq!(counts(&world).await, are(0, 1));
}

#[tokio::test]
async fn point_9_failed_rows_can_be_retried_and_dismissed_by_the_dashboards_routes() {
    let mut world = World::start().await;
    let (retried, dismissed) = (a_failed_entry(&world).await, a_failed_entry(&world).await);
    // Nobody tries before the row was looked at.
    world.stop_worker().await;

    let path = format!("/api/admin/outbox/{}/retry", text(&retried["id"]));
    assert_eq!(world.post(&path, &json!({})).await.status, 200);
    let path = format!("/api/admin/outbox/{}", text(&dismissed["id"]));
    assert_eq!(world.delete(&path).await.status, 204);

    let entry = world.entry().await;
    assert_eq!(entry["id"], retried["id"]);
    starts_over_now(&world, &entry);
    world.mail_server.restart().await;
    world.start_worker();
    world.settle().await;
    world.mail_server.only_one();
    assert_eq!(world.entries().await, [] as [Value; 0]);
}

#[tokio::test]
async fn point_9_the_email_queue_lists_rows_and_its_forms_retry_and_dismiss() {
    let mut world = World::start().await;
    let (retried, dismissed) = (a_failed_entry(&world).await, a_failed_entry(&world).await);
    world.book().await;
    world.settle().await;
    let pending = world.entries().await.remove(0);
    assert_eq!(pending["status"], "pending");
    world.stop_worker().await;
    let page = world.get("/admin/email-queue").await;
    assert_eq!(page.status, 200);
    let page = text(&page.body);
    for (entry, has_buttons) in [(&retried, true), (&dismissed, true), (&pending, false)] {
        let id = text(&entry["id"]);
        assert!(page.contains(&format!("data-key=\"{id}\"")), "{page}");
        for action in ["retry", "dismiss"] {
            let form = format!("action=\"/admin/email-queue/{id}/{action}\"");
            assert_eq!(page.contains(&form), has_buttons, "{form}");
        }
    }
    let retry = format!("/admin/email-queue/{}/retry", text(&retried["id"]));
    let forged = world.submit(&retry, &[]).await;
    assert_eq!(forged.status, 403, "without the token of the page");

    let token = [("csrf", token_in(page))];
    let answer = world.submit(&retry, &token).await;
    assert_eq!(
        (answer.status.as_u16(), &*answer.location),
        (303, "/admin/email-queue")
    );
    let dismiss = format!("/admin/email-queue/{}/dismiss", text(&dismissed["id"]));
    assert_eq!(world.submit(&dismiss, &token).await.status, 303);

    let entries = world.entries().await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    let entry = entries.iter().find(|entry| entry["id"] == retried["id"]);
    starts_over_now(&world, entry.unwrap());
}
