//! Seed 004's acceptance points about sending: 3 to 7, and 10.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Status;
use posthaste_sink::ReceivedMessage;
use serde_json::{Value, json};

use crate::invitation::invitation_in;
use crate::mail_server::MailServer;
use crate::world::{HOST, World, eventually, seconds_after, text, time};

/// When the worker tries, in seconds after the failure at once.
const SCHEDULE: [i64; 5] = [30, 90, 210, 450, 930];

/// An email to Ada, and to the host, whom she does not see in it.
fn is_for_ada_and_the_host(message: &ReceivedMessage) {
    assert_eq!(message.recipients, ["ada@example.org", HOST]);
    assert_eq!(message.from, HOST);
    let source = String::from_utf8_lossy(&message.bytes);
    let (header, _) = source.split_once("\r\n\r\n").unwrap();
    assert!(header.contains("\r\nTo: \"Ada\" <ada@example.org>\r\n"));
    assert!(!header.to_lowercase().contains("\r\nbcc:"), "{header}");
}

/// A row that the failure at once left: nothing is counted yet.
fn waits_for_its_first_retry(entry: &Value, failed_at: posthaste::Timestamp) {
    assert_eq!(entry["status"], "pending");
    assert_eq!(entry["attempts"], 0);
    assert_eq!(entry["maxAttempts"], 5);
    let due = failed_at + Duration::from_secs(30);
    assert_eq!(time(&entry["nextRetryAt"]), due);
    assert!(entry["lastError"].is_string(), "{entry}");
}

#[tokio::test]
async fn point_3_with_a_healthy_mail_server_it_is_sent_at_once_and_no_row_remains() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    // Without a worker: nobody else could have sent it.
    let world = World::open(folder, MailServer::start().await).await;

    let booking = world.book().await;

    eventually("the row is gone", async || world.rows() == 0).await;
    let message = world.mail_server.only_one();
    is_for_ada_and_the_host(&message);
    let invitation = invitation_in(&message);
    assert_eq!(invitation["method"], "REQUEST");
    assert_eq!(invitation["uid"], booking["uid"]);
    assert_eq!(invitation["start"]["wall"], booking["slot"]);
    assert_eq!(invitation["start"]["zone"], "Europe/Berlin");
    assert_eq!(world.entries().await, [] as [Value; 0]);
}

#[tokio::test]
async fn point_4_with_the_mail_server_down_it_is_booked_and_a_row_is_pending() {
    let world = World::start().await;
    world.mail_server.kill().await;

    // Asserts 200.
    let booking = world.book().await;

    world.settle().await;
    let entry = world.entry().await;
    waits_for_its_first_retry(&entry, world.now());
    assert_eq!(time(&entry["createdAt"]), world.now());
    assert_eq!(entry["toAddress"], "ada@example.org");
    assert!(text(&entry["subject"]).starts_with("Booked: "), "{entry}");
    assert_eq!(world.get("/api/bookings").await.body, json!([booking]));
}

#[tokio::test]
async fn point_5_it_is_tried_after_30_60_120_240_and_480_seconds_and_then_has_failed() {
    let world = World::start().await;
    world.mail_server.kill().await;
    world.book().await;
    world.settle().await;
    let start = world.now();

    for (failed_before, seconds) in SCHEDULE.into_iter().enumerate() {
        let entry = world.entry().await;
        assert_eq!(entry["status"], "pending");
        assert_eq!(entry["attempts"], failed_before);
        assert_eq!(seconds_after(start, &entry["nextRetryAt"]), seconds);
        world.advance_past(time(&entry["nextRetryAt"])).await;
    }

    let entry = world.entry().await;
    assert_eq!(entry["status"], "failed");
    assert_eq!(entry["attempts"], 5);
}

#[tokio::test]
async fn point_6_once_the_mail_server_is_back_the_row_is_delivered_and_removed() {
    let mut world = World::start().await;
    world.mail_server.kill().await;
    world.book().await;
    world.settle().await;
    world
        .advance_past(world.now() + Duration::from_secs(30))
        .await;
    assert_eq!(world.entry().await["attempts"], 1);

    world.mail_server.restart().await;
    world
        .advance_past(world.now() + Duration::from_secs(60))
        .await;

    is_for_ada_and_the_host(&world.mail_server.only_one());
    assert_eq!(world.rows(), 0);
    assert_eq!(world.entries().await, [] as [Value; 0]);
}

#[tokio::test]
async fn point_7_a_cancellation_that_cannot_be_sent_waits_and_is_delivered_later() {
    let mut world = World::start().await;
    let booking = world.book().await;
    world.settle().await;
    let request = invitation_in(&world.mail_server.only_one());
    world.mail_server.kill().await;

    let cancelled = world.cancel(&booking).await;

    assert_eq!(cancelled["cancelled"], true);
    world.settle().await;
    let entry = world.entry().await;
    waits_for_its_first_retry(&entry, world.now());
    assert!(text(&entry["subject"]).starts_with("Cancelled: "));
    world.mail_server.restart().await;
    world.advance_past(time(&entry["nextRetryAt"])).await;
    assert_eq!(world.rows(), 0);
    let message = world.mail_server.only_one();
    is_for_ada_and_the_host(&message);
    let cancel = invitation_in(&message);
    assert_eq!(cancel["method"], "CANCEL");
    assert_eq!(cancel["status"], "CANCELLED");
    assert_eq!(cancel["uid"], request["uid"]);
    assert!(cancel["sequence"].as_u64() > request["sequence"].as_u64());
}

#[tokio::test]
async fn point_10_a_booking_does_not_wait_for_mail() {
    let mut world = World::start().await;
    world.mail_server.hang();

    // The mail server never says a word, so whatever waits for it is still waiting now.
    world.book().await;

    world.mail_server.until_connected().await;
    let entries = world.studio.outbox().undelivered().await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].status, Status::Sending);
    // Nothing is lost by it, either.
    world.mail_server.restart().await;
    world.settle().await;
    waits_for_its_first_retry(&world.entry().await, world.now());
    world
        .advance_past(world.now() + Duration::from_secs(30))
        .await;
    is_for_ada_and_the_host(&world.mail_server.only_one());
}
