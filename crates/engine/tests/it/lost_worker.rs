//! Workers that come back after they were given up.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::retry_policy::{OnUnknown, RetryPolicy};
use posthaste_core::status::{Outcome, Status};
use posthaste_engine::Policies;
use posthaste_engine::service::Service as _;

use crate::world::{Answer, LEASE, World, a_request};

fn holding() -> Policies {
    let policy = RetryPolicy {
        on_unknown: OnUnknown::Hold,
        ..RetryPolicy::email()
    };
    Policies::new([("email".to_owned(), policy)].into())
}

fn past_the_lease(world: &World) {
    world.clock.advance(LEASE + Duration::from_secs(1));
}

#[tokio::test]
async fn a_late_250_with_the_current_token_turns_an_uncertain_email_into_a_sent_one() {
    let mut world = World::with(holding(), 10);
    let id = world.accept(a_request()).await;
    world.start_sender();
    let (open, answer) = world.next_attempt().await.gate().await;
    assert!(open);
    past_the_lease(&world);
    world.rescuer.run_once().await.unwrap();
    assert_eq!(world.email(id).await.state.status, Status::Unknown);

    answer.send(Answer::Accepted).ok().unwrap();

    let email = world.until(id, Status::Sent).await;
    assert_eq!(email.attempts.len(), 1);
    assert_eq!(email.attempts[0].outcome, Outcome::Sent);
    assert_eq!(email.state.attempt_count, 0);
    world.verify().await;
}

#[tokio::test]
async fn a_late_failure_changes_nothing_and_is_counted() {
    let mut world = World::with(holding(), 10);
    let id = world.accept(a_request()).await;
    world.start_sender();
    let (_, answer) = world.next_attempt().await.gate().await;
    past_the_lease(&world);
    world.rescuer.run_once().await.unwrap();
    let before = world.email(id).await.state;

    let failure = Failure::new(Stage::FinalDot, Cause::Timeout);
    answer
        .send(Answer::Results(RecipientResult::Failed(failure)))
        .ok()
        .unwrap();

    while world.metric("posthaste_stale_writes_rejected_total") < 1.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.email(id).await.state, before);
    world.verify().await;
}

#[tokio::test]
async fn the_gate_stays_shut_for_a_sender_that_lost_its_lease() {
    let mut world = World::new();
    let id = world.accept(a_request()).await;
    world.start_sender();
    let attempt = world.next_attempt().await;
    past_the_lease(&world);
    world.rescuer.run_once().await.unwrap();
    let rescued = world.email(id).await.state;
    assert_eq!(
        (rescued.status, rescued.attempt_count, rescued.lost_count),
        (Status::Failed, 0, 1)
    );

    let (open, answer) = attempt.gate().await;

    assert!(!open);
    let failure = Failure::new(Stage::Gate, Cause::LeaseLost);
    answer
        .send(Answer::Results(RecipientResult::Failed(failure)))
        .ok()
        .unwrap();
    world.scheduler.run_once().await.unwrap();
    world.next_attempt().await.end(Answer::Accepted);
    let email = world.until(id, Status::Sent).await;
    assert_eq!(email.state.attempt_number, 2);
    assert!(!email.state.possible_duplicate);
    world.verify().await;
}

#[tokio::test]
async fn a_transport_that_panics_before_the_gate_costs_an_attempt_and_nothing_else() {
    let mut world = World::new();
    let id = world.accept(a_request()).await;
    world.start_sender();
    world.next_attempt().await.end(Answer::Panic);
    let email = world.until(id, Status::Failed).await;
    assert_eq!(email.state.attempt_count, 1);
    assert!(!email.state.possible_duplicate);
    world.verify().await;
}

#[tokio::test]
async fn a_transport_that_panics_after_the_gate_leaves_an_uncertain_email() {
    let mut world = World::with(holding(), 10);
    let id = world.accept(a_request()).await;
    world.start_sender();
    let (open, answer) = world.next_attempt().await.gate().await;
    assert!(open);
    answer.send(Answer::Panic).ok().unwrap();
    let email = world.until(id, Status::Unknown).await;
    assert_eq!(email.attempts[0].outcome, Outcome::Unknown);
    world.verify().await;
}

#[tokio::test]
async fn an_email_that_kills_three_workers_is_poison_and_sent_alone_before() {
    let mut world = World::new();
    let id = world.accept(a_request()).await;
    world.start_sender();
    for lost in 1..=3 {
        let attempt = world.next_attempt().await;
        assert_eq!(world.email(id).await.state.is_sent_alone(), lost > 2);
        past_the_lease(&world);
        world.rescuer.run_once().await.unwrap();
        // The worker is gone for good: its attempt never ends, but frees its place.
        attempt.end(Answer::Panic);
        world.scheduler.run_once().await.unwrap();
    }
    let email = world.until(id, Status::Dead).await;
    assert_eq!(
        email.state.dead_reason.map(|reason| reason.as_str()),
        Some("Poison")
    );
    assert!((world.metric("posthaste_dead_total{reason=\"Poison\"}") - 1.0).abs() < f64::EPSILON);
    world.verify().await;
}
