//! Emails whose callers wait for the first attempt.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::{DeadReason, Outcome, Status};
use posthaste_engine::intake::{Delivered, EmailRequest, PolicyRequest, Refused, Submitter};
use posthaste_engine::service::Service as _;
use tokio::task::JoinHandle;

use crate::world::{Answer, LEASE, World, a_request};

type Delivering = JoinHandle<Result<Delivered, Refused>>;

fn deliver(world: &World, request: EmailRequest) -> Delivering {
    let intake = Arc::clone(&world.intake);
    tokio::spawn(async move {
        let submitter = Submitter {
            owner: "default".into(),
            from_addresses: Vec::new(),
        };
        intake.deliver(&submitter, request).await
    })
}

async fn ended(delivering: Delivering) -> Delivered {
    delivering.await.unwrap().unwrap()
}

fn an_outbox_request() -> EmailRequest {
    EmailRequest {
        retry_policy: Some(PolicyRequest::Named("outbox".into())),
        ..a_request()
    }
}

fn says(code: u16, text: &str) -> Answer {
    let cause = Cause::Reply(Reply::new(code, text));
    Answer::Results(RecipientResult::Failed(Failure::new(
        Stage::Recipient,
        cause,
    )))
}

#[tokio::test]
async fn an_email_is_sent_while_its_caller_waits() {
    let mut world = World::new();
    let delivering = deliver(&world, a_request());
    let (open, answer) = world.next_attempt().await.gate().await;
    assert!(open);
    answer.send(Answer::Accepted).ok().unwrap();

    let delivered = ended(delivering).await;

    assert_eq!(delivered.status, Status::Sent);
    let email = world.email(delivered.id).await;
    assert_eq!(email.state.status, Status::Sent);
    assert_eq!(email.attempts.len(), 1);
    world.verify().await;
}

#[tokio::test]
async fn tries_come_at_the_times_of_seed_004_and_the_first_one_is_not_counted() {
    let mut world = World::new();
    let accepted_at = world.store.now();
    let delivering = deliver(&world, an_outbox_request());
    world
        .next_attempt()
        .await
        .end(says(451, "4.3.0 Come back later"));
    let delivered = ended(delivering).await;
    assert_eq!(delivered.status, Status::Failed);
    let id = delivered.id;
    let mut due = delivered.next_attempt_at;
    world.start_sender();
    for (count, at) in (0..).zip([30, 90, 210, 450, 930]) {
        assert_eq!(due, Some(accepted_at + Duration::from_secs(at)));
        assert_eq!(world.email(id).await.state.attempt_count, count);
        let wait = due.unwrap().duration_since(world.store.now());
        world.clock.advance(wait.unsigned_abs());
        world.scheduler.run_once().await.unwrap();
        world
            .next_attempt()
            .await
            .end(says(451, "4.3.0 Come back later"));
        let ended = if count == 4 {
            Status::Dead
        } else {
            Status::Failed
        };
        due = world.until(id, ended).await.state.next_attempt_at;
    }
    let state = world.email(id).await.state;
    assert_eq!(state.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
    assert_eq!((state.attempt_count, state.attempt_number), (5, 6));
    world.verify().await;
}

#[tokio::test]
async fn a_transport_that_panics_leaves_the_email_failed_with_nothing_counted() {
    let mut world = World::new();
    let delivering = deliver(&world, an_outbox_request());
    world.next_attempt().await.end(Answer::Panic);
    let delivered = ended(delivering).await;
    assert_eq!(delivered.status, Status::Failed);
    let email = world.email(delivered.id).await;
    assert_eq!(email.state.attempt_count, 0);
    let thirty = Duration::from_secs(30);
    assert_eq!(
        email.state.next_attempt_at,
        Some(world.store.now() + thirty)
    );
    assert!(!email.state.possible_duplicate);
    world.verify().await;
}

#[tokio::test]
async fn one_that_is_refused_for_good_is_dead_at_once() {
    let mut world = World::new();
    let delivering = deliver(&world, a_request());
    world
        .next_attempt()
        .await
        .end(says(550, "5.1.1 No such user"));
    let delivered = ended(delivering).await;
    assert_eq!(delivered.status, Status::Dead);
    assert_eq!(delivered.dead_reason, Some(DeadReason::HardBounce));
    world.verify().await;
}

#[tokio::test]
async fn a_lost_reply_after_the_dot_is_unknown_and_sent_again_once() {
    let mut world = World::new();
    let delivering = deliver(&world, an_outbox_request());
    let (open, answer) = world.next_attempt().await.gate().await;
    assert!(open);
    let lost = Failure::new(Stage::FinalDot, Cause::Disconnected);
    let lost = Answer::Results(RecipientResult::Failed(lost));
    answer.send(lost).ok().unwrap();
    let delivered = ended(delivering).await;
    assert_eq!(delivered.status, Status::Failed);
    let email = world.email(delivered.id).await;
    assert_eq!(email.attempts[0].outcome, Outcome::Unknown);
    assert!(email.state.possible_duplicate);
    assert_eq!(
        (email.state.attempt_count, email.state.unknown_count),
        (0, 1)
    );
    world.verify().await;
}

#[tokio::test]
async fn a_server_that_takes_too_long_before_the_gate_costs_the_caller_no_more_time() {
    let mut world = World::with_patience(Duration::from_millis(1));
    let delivered = ended(deliver(&world, an_outbox_request())).await;
    // The transport waits for ever; the attempt does not.
    let _waiting = world.next_attempt().await;
    let email = world.until(delivered.id, Status::Failed).await;
    assert_eq!(email.state.attempt_count, 0);
    assert_eq!(email.attempts[0].outcome, Outcome::Transient);
    world.verify().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_the_dot_is_waited_for_without_the_caller() {
    let mut world = World::new();
    let delivering = deliver(&world, a_request());
    let (open, answer) = world.next_attempt().await.gate().await;
    assert!(open);
    // From here on time flies whenever nobody has anything to do.
    tokio::time::pause();
    let delivered = ended(delivering).await;
    tokio::time::resume();
    assert_eq!(delivered.status, Status::Sending);

    answer.send(Answer::Accepted).ok().unwrap();

    world.until(delivered.id, Status::Sent).await;
    world.verify().await;
}

#[tokio::test]
async fn an_attempt_goes_on_when_its_caller_hangs_up() {
    let mut world = World::new();
    let delivering = deliver(&world, a_request());
    let attempt = world.next_attempt().await;
    let id = attempt.email.email_id;
    delivering.abort();
    let (open, answer) = attempt.gate().await;
    assert!(open);
    answer.send(Answer::Accepted).ok().unwrap();
    world.until(id, Status::Sent).await;
    world.verify().await;
}

#[tokio::test]
async fn who_comes_second_with_the_same_key_waits_for_the_first_ones_answer() {
    let mut world = World::new();
    let request = EmailRequest {
        message_key: Some("order-1".into()),
        ..a_request()
    };
    let first = deliver(&world, request.clone());
    let (_, answer) = world.next_attempt().await.gate().await;
    let second = deliver(&world, request);
    answer.send(Answer::Accepted).ok().unwrap();
    let (first, second) = (ended(first).await, ended(second).await);
    assert_eq!(first.id, second.id);
    assert_eq!((first.status, second.status), (Status::Sent, Status::Sent));
    assert!(!first.is_replayed && second.is_replayed);
    assert!(world.attempts.try_recv().is_err(), "one attempt only");
}

#[tokio::test]
async fn more_callers_than_there_is_room_for_are_queued() {
    let mut world = World::new();
    let mut waiting = Vec::new();
    let mut delivering = Vec::new();
    // Two for each of the four connections.
    for _ in 0..8 {
        delivering.push(deliver(&world, a_request()));
        waiting.push(world.next_attempt().await);
    }
    let delivered = ended(deliver(&world, a_request())).await;
    assert_eq!(delivered.status, Status::Pending);
    for attempt in waiting {
        attempt.end(Answer::Accepted);
    }
    for one in delivering {
        assert_eq!(ended(one).await.status, Status::Sent);
    }
    world.verify().await;
}

#[tokio::test]
async fn a_caller_that_died_before_the_gate_leaves_the_email_to_others() {
    let mut world = World::new();
    deliver(&world, a_request());
    let attempt = world.next_attempt().await;
    let id = attempt.email.email_id;
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.rescuer.run_once().await.unwrap();
    let state = world.email(id).await.state;
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 0));
    // It comes back, and the gate stays shut.
    let (open, _) = attempt.gate().await;
    assert!(!open);
    world.verify().await;
}

#[tokio::test]
async fn what_is_for_later_cannot_be_sent_at_once() {
    let world = World::new();
    let later = world.store.now() + Duration::from_secs(3600);
    let request = EmailRequest {
        send_at: Some(later.to_string()),
        ..a_request()
    };
    let refused = deliver(&world, request).await.unwrap();
    let Err(Refused::Invalid(errors)) = refused else {
        panic!("not refused: {refused:?}");
    };
    assert_eq!(errors[0].field, "send_at");
    assert_eq!(world.store.statistics().await.unwrap().accepted, 0);
}

#[test]
fn the_policy_is_the_one_of_seed_004() {
    let policy = RetryPolicy::outbox();
    assert_eq!(policy.max_attempts, 5);
    let delays: Vec<_> = (1..=5).map(|n| policy.backoff(n).as_secs()).collect();
    assert_eq!(delays, [30, 60, 120, 240, 480]);
}
