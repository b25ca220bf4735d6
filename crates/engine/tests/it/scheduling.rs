//! Retries come at their time, and survive a broker without room.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Broker as _, Route};
use posthaste_core::reply::Reply;
use posthaste_core::status::Status;
use posthaste_engine::Policies;
use posthaste_engine::service::Service as _;

use crate::world::{Answer, World, a_request};

fn try_later() -> Answer {
    let reply = Reply::new(451, "4.3.0 Try again in 200 seconds");
    Answer::Results(RecipientResult::Failed(Failure::new(
        Stage::Recipient,
        Cause::Reply(reply),
    )))
}

#[tokio::test]
async fn a_retry_comes_when_the_server_allows_and_not_a_microsecond_earlier() {
    let mut world = World::new();
    let id = world.accept(a_request()).await;
    world.start_sender();
    world.next_attempt().await.end(try_later());
    let failed = world.until(id, Status::Failed).await.state;
    world.stop_sender().await;
    // The policy says one minute, the server 200 seconds.
    let wait = failed
        .next_attempt_at
        .unwrap()
        .duration_since(posthaste_core::port::Store::now(&*world.store));
    assert_eq!(wait.as_secs(), 200);

    world
        .clock
        .advance(Duration::from_secs(200) - Duration::from_micros(1));
    let report = world.scheduler.run_once().await.unwrap();
    assert_eq!(report.done, 0);
    assert!(
        report.again_in.unwrap() < Duration::from_millis(5),
        "it wakes at the due time"
    );
    world.clock.advance(Duration::from_micros(1));
    assert_eq!(world.scheduler.run_once().await.unwrap().done, 1);
    world.start_sender();
    world.next_attempt().await.end(Answer::Accepted);
    world.until(id, Status::Sent).await;
    world.verify().await;
}

#[tokio::test]
async fn what_the_broker_refuses_stays_due_and_a_free_sender_finds_it() {
    let mut world = World::with(Policies::default(), 1);
    let first = world.accept(a_request()).await;
    let second = world.accept(a_request()).await;
    assert!(world.email(first).await.state.last_queued_at.is_some());
    assert_eq!(
        world.email(second).await.state.last_queued_at,
        None,
        "no room: not queued"
    );
    let report = world.scheduler.run_once().await.unwrap();
    assert!(
        report.again_in.is_some(),
        "still no room: it comes again soon"
    );
    assert_eq!(world.email(second).await.state.status, Status::Pending);

    world.start_sender();

    for _ in 0..2 {
        world.next_attempt().await.end(Answer::Accepted);
    }
    for id in [first, second] {
        world.until(id, Status::Sent).await;
    }
    world.verify().await;
}

#[tokio::test]
async fn every_ticket_may_be_lost() {
    let mut world = World::new();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(world.accept(a_request()).await);
    }
    assert_eq!(world.broker.receive(100).await.len(), 20, "and thrown away");
    // Long enough ago to be taken for lost.
    world.clock.advance(Duration::from_secs(7200));
    world.start_sender();
    for _ in 0..20 {
        world.next_attempt().await.end(Answer::Accepted);
    }
    for id in ids {
        world.until(id, Status::Sent).await;
    }
    world.verify().await;
}

#[tokio::test]
async fn a_doubled_ticket_sends_nothing_twice() {
    let mut world = World::new();
    let id = world.accept(a_request()).await;
    let taken = world.broker.receive(1).await;
    let ticket = taken[0].ticket.clone();
    world
        .broker
        .publish(Route::First, vec![ticket.clone(), ticket.clone(), ticket])
        .await;
    world.start_sender();
    world.next_attempt().await.end(Answer::Accepted);
    world.until(id, Status::Sent).await;
    // A later email passes through the same queue, so the doubles are behind us.
    let other = world.accept(a_request()).await;
    let attempt = world.next_attempt().await;
    assert_eq!(attempt.email.email_id, other);
    attempt.end(Answer::Accepted);
    world.until(other, Status::Sent).await;
    assert_eq!(world.email(id).await.attempts.len(), 1);
    world.verify().await;
}

#[tokio::test]
async fn an_email_that_expires_while_it_waits_is_dead_without_an_attempt() {
    let world = World::new();
    let mut request = a_request();
    let now = posthaste_core::port::Store::now(&*world.store);
    request.send_at = Some((now + Duration::from_secs(60)).to_string());
    request.expires_at = Some((now + Duration::from_secs(120)).to_string());
    let id = world.accept(request).await;
    assert_eq!(world.scheduler.run_once().await.unwrap().done, 0);
    world.clock.advance(Duration::from_secs(121));
    world.scheduler.run_once().await.unwrap();
    let email = world.email(id).await;
    assert_eq!(
        email.state.dead_reason.map(|reason| reason.as_str()),
        Some("Expired")
    );
    assert!(email.attempts.is_empty());
    world.verify().await;
}
