//! What becomes of emails when a way out fails: nothing of it is theirs to bear.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_core::answer::{self, Provider};
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::Actor;
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::{DeadReason, Outcome, Status};
use posthaste_core::way::{BreakerRules, Condition};
use posthaste_engine::operator::Switched;
use posthaste_engine::service::Service as _;
use posthaste_engine::{EmailRequest, Policies};

use crate::world::{Answer, AtTransport, World, a_request};

/// Comes back at once when it comes back: the ramp has a test of its own.
const RULES: BreakerRules = BreakerRules {
    failures: 10,
    credential_failures: 5,
    window: Duration::from_secs(60),
    first_probe: Duration::from_secs(10),
    longest_probe: Duration::from_secs(60),
    ramp_rate: 1_000_000.0,
    ramp_doubling: Duration::from_secs(5),
    ramp: Duration::from_secs(60),
};

fn three_attempts() -> Policies {
    let notification = RetryPolicy::built_in()
        .into_iter()
        .find_map(|(name, policy)| (name == "notification").then_some(policy))
        .unwrap();
    Policies::new(BTreeMap::from([("email".to_owned(), notification)]))
}

fn refused() -> Answer {
    let failure = Failure::new(Stage::Connect, Cause::Refused);
    Answer::Results(RecipientResult::Failed(failure))
}

fn wrong_password() -> Answer {
    let reply = Reply::new(535, "5.7.8 Authentication failed");
    let failure = Failure::new(Stage::Authentication, Cause::Reply(reply));
    Answer::Results(RecipientResult::Failed(failure))
}

fn to(address: &str) -> EmailRequest {
    EmailRequest {
        to: vec![address.to_owned()],
        ..a_request()
    }
}

fn someone() -> Actor {
    Actor {
        name: "test".into(),
        owner: None,
    }
}

impl World {
    async fn accept_many(&self, n: usize) -> Vec<EmailId> {
        let mut ids = Vec::new();
        for at in 0..n {
            ids.push(self.accept(to(&format!("ann@d{at}.example.org"))).await);
        }
        ids
    }

    /// Waits until an email is parked.
    async fn until_parked(&self, id: EmailId) -> EmailRecord {
        loop {
            let email = self.email(id).await;
            if email.state.waiting_for.is_some() {
                return email;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Answers attempts until each of these emails is sent, and gives who went by which transport.
    async fn send_all(&mut self, ids: &[EmailId]) -> Vec<(EmailId, String)> {
        let mut went = Vec::new();
        while went.len() < ids.len() {
            let attempt = self.next_attempt().await;
            went.push((attempt.email.email_id, attempt.transport.clone()));
            attempt.accept().await;
        }
        for id in ids {
            self.until(*id, Status::Sent).await;
        }
        went
    }
}

impl AtTransport {
    async fn accept(self) {
        let (open, answer) = self.gate().await;
        assert!(open);
        answer.send(Answer::Accepted).ok().unwrap();
    }
}

#[tokio::test]
async fn an_outage_costs_no_attempts_at_all() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let ids = world.accept_many(40).await;
    world.start_sender();
    for _ in 0..RULES.failures {
        world.next_attempt().await.end(refused());
    }
    // Others were under way when it was stopped.
    let all_waiting = async |world: &mut World| {
        for id in &ids {
            loop {
                let state = world.email(*id).await.state;
                let rests = state.status == Status::Failed;
                if rests && (state.waiting_for.is_some() || !state.is_due(world.store.now())) {
                    break;
                }
                if let Ok(attempt) = world.attempts.try_recv() {
                    attempt.end(refused());
                }
                tokio::task::yield_now().await;
            }
        }
    };
    all_waiting(&mut world).await;
    let transport = world.operator.transports().await.unwrap().remove(0);
    assert_eq!(transport.condition, Condition::Stopped);

    // Two hours, with a probe now and then that fails.
    let mut probes = 0;
    for _ in 0..120 {
        world.clock.advance(Duration::from_secs(60));
        let _ = world.scheduler.run_once().await;
        let probe = world.next_attempt().await;
        probe.end(refused());
        probes += 1;
        while world.operator.transports().await.unwrap()[0].condition != Condition::Stopped {
            tokio::task::yield_now().await;
        }
        assert!(world.attempts.try_recv().is_err(), "one at a time");
    }
    assert_eq!(probes, 120);
    all_waiting(&mut world).await;
    for id in &ids {
        let email = world.email(*id).await;
        assert_eq!(email.state.attempt_count, 0, "{email:?}");
        assert!(email.attempts.iter().all(|attempt| attempt.is_free));
        assert_eq!(email.state.waiting_for.as_deref(), Some("smtp"));
        assert_eq!(email.status_text(3, world.store.now()), "Waiting for smtp");
    }

    world.clock.advance(Duration::from_secs(60));
    world.send_all(&ids).await;
    world.verify().await;
}

#[tokio::test]
async fn an_email_that_no_server_likes_does_not_keep_a_way_stopped() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let bad = EmailRequest {
        priority: Some("high".to_owned()),
        ..to("ann@bad.example.org")
    };
    let bad = world.accept(bad).await;
    let mut ids = world.accept_many(20).await;
    world.start_sender();
    ids.push(bad);
    for id in &ids {
        while !matches!(&world.email(*id).await.state, state if state.status == Status::Failed) {
            if let Ok(attempt) = world.attempts.try_recv() {
                attempt.end(refused());
            }
            tokio::task::yield_now().await;
        }
    }
    // The server is well again, but hangs up on that one. It is the first to be sent, and has its
    // turns; the others have theirs.
    let mut tests = Vec::new();
    for _ in 0..4 {
        world.clock.advance(Duration::from_secs(60));
        let _ = world.scheduler.run_once().await;
        let test = world.next_attempt().await;
        tests.push(test.email.email_id);
        test.end(refused());
        while world.operator.transports().await.unwrap()[0].condition != Condition::Stopped {
            tokio::task::yield_now().await;
        }
    }
    let by_the_bad_one = tests.iter().filter(|id| **id == bad).count();
    assert!(by_the_bad_one <= 1, "{by_the_bad_one} of 4");
}

#[tokio::test]
async fn one_email_that_fails_again_and_again_stops_nothing_and_dies() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let id = world.accept(a_request()).await;
    world.start_sender();
    for _ in 0..3 {
        world.next_attempt().await.end(refused());
        let rests = |email: &EmailRecord| {
            email.state.status == Status::Failed || email.state.status == Status::Dead
        };
        while !rests(&world.email(id).await) {
            tokio::task::yield_now().await;
        }
        world.clock.advance(Duration::from_secs(3600));
        let _ = world.scheduler.run_once().await;
    }
    let email = world.until(id, Status::Dead).await;
    assert_eq!(
        email.state.dead_reason,
        Some(DeadReason::MaxAttemptsExceeded)
    );
}

#[tokio::test]
async fn a_wrong_password_kills_five_emails_and_not_one_more() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let ids = world.accept_many(30).await;
    world.start_sender();
    // All that there is room for are under way when the first is refused.
    let mut under_way = Vec::new();
    for _ in 0..ids.len() {
        under_way.push(world.next_attempt().await);
    }
    for attempt in under_way {
        attempt.end(wrong_password());
    }
    let mut dead = 0;
    for id in &ids {
        loop {
            let state = world.email(*id).await.state;
            match state.status {
                Status::Dead => {
                    assert_eq!(state.dead_reason, Some(DeadReason::AuthenticationFailed));
                    dead += 1;
                    break;
                }
                Status::Failed if state.waiting_for.is_some() => break,
                _ => tokio::task::yield_now().await,
            }
        }
    }
    assert_eq!(dead, 5);
}

#[tokio::test]
async fn another_way_is_taken_at_once_and_the_first_again_when_it_is_back() {
    let mut world = World::with_ways(three_attempts(), &["primary", "secondary"], RULES);
    world.start_sender();
    // Three that fail stop it; each goes by the other.
    for _ in 0..3 {
        let id = world.accept(a_request()).await;
        let attempt = world.next_attempt().await;
        assert_eq!(attempt.transport, "primary");
        attempt.end(refused());
        let attempt = loop {
            if let Ok(attempt) = world.attempts.try_recv() {
                break attempt;
            }
            let _ = world.scheduler.run_once().await;
            tokio::task::yield_now().await;
        };
        assert_eq!(
            (attempt.email.email_id, attempt.transport.as_str()),
            (id, "secondary")
        );
        attempt.accept().await;
        let email = world.until(id, Status::Sent).await;
        let tried: Vec<_> = email
            .attempts
            .iter()
            .map(|a| (a.outcome, a.is_free))
            .collect();
        assert_eq!(tried, [(Outcome::Transient, true), (Outcome::Sent, false)]);
        assert_eq!(email.state.attempt_count, 0);
    }
    let id = world.accept(a_request()).await;
    assert_eq!(world.send_all(&[id]).await, [(id, "secondary".to_owned())]);

    world.clock.advance(Duration::from_secs(11));
    let probe = world.accept(a_request()).await;
    assert_eq!(
        world.send_all(&[probe]).await,
        [(probe, "primary".to_owned())]
    );
    let id = world.accept(a_request()).await;
    assert_eq!(world.send_all(&[id]).await, [(id, "primary".to_owned())]);
    world.verify().await;
}

#[tokio::test]
async fn what_may_have_left_by_one_way_goes_by_no_other() {
    let mut world = World::with_ways(three_attempts(), &["primary", "secondary"], RULES);
    let id = world.accept(a_request()).await;
    world.start_sender();
    let (_, answer) = world.next_attempt().await.gate().await;
    let lost = Failure::new(Stage::FinalDot, Cause::Disconnected);
    answer
        .send(Answer::Results(RecipientResult::Failed(lost)))
        .ok()
        .unwrap();
    let email = world.until(id, Status::Failed).await;
    assert_eq!(email.state.bound_to.as_deref(), Some("primary"));

    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(3600));
        let _ = world.scheduler.run_once().await;
        let again = world.next_attempt().await;
        assert_eq!(again.transport, "primary");
        if world.email(id).await.state.attempt_count < 2 {
            again.end(refused());
            while world.email(id).await.state.status == Status::Sending {
                tokio::task::yield_now().await;
            }
        } else {
            again.accept().await;
            break;
        }
    }
    let email = world.until(id, Status::Sent).await;
    assert!(email.state.possible_duplicate);
    world.verify().await;
}

#[tokio::test]
async fn a_paused_way_lets_nothing_go_until_it_is_resumed() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let switched = world.operator.pause_transport("smtp", &someone()).await;
    assert_eq!(switched.unwrap(), Switched::Done);
    let id = world.accept(a_request()).await;
    world.start_sender();
    let email = world.until_parked(id).await;
    assert_eq!((email.state.attempt_number, email.attempts.len()), (0, 0));
    world.clock.advance(Duration::from_secs(7200));

    let switched = world.operator.resume_transport("smtp", &someone()).await;
    assert_eq!(switched.unwrap(), Switched::Done);
    world.send_all(&[id]).await;
    let actions: Vec<String> = world
        .store
        .audit(&posthaste_core::port::AuditFilter::newest(2))
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.action)
        .collect();
    assert_eq!(actions, ["resume_transport", "pause_transport"]);
}

#[tokio::test]
async fn a_parked_email_dies_when_it_becomes_too_late() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    world
        .operator
        .pause_transport("smtp", &someone())
        .await
        .unwrap();
    let id = world
        .accept(EmailRequest {
            expire_after: Some("10m".into()),
            ..a_request()
        })
        .await;
    world.start_sender();
    world.until_parked(id).await;
    world.clock.advance(Duration::from_secs(599));
    let _ = world.scheduler.run_once().await;
    assert_eq!(world.email(id).await.state.status, Status::Failed);
    world.clock.advance(Duration::from_secs(2));
    let _ = world.scheduler.run_once().await;
    let email = world.until(id, Status::Dead).await;
    assert_eq!(email.state.dead_reason, Some(DeadReason::Expired));
    world.verify().await;
}

#[tokio::test]
async fn a_domain_in_trouble_stops_only_what_goes_there() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    world.start_sender();
    for at in 0..RULES.failures {
        let id = world.accept(to(&format!("a{at}@down.example"))).await;
        let reply = Reply::new(451, "4.4.1 No answer from host");
        let failure = Failure::new(Stage::Recipient, Cause::Reply(reply));
        let answer = Answer::Results(RecipientResult::Failed(failure));
        world.next_attempt().await.end(answer);
        world.until(id, Status::Failed).await;
    }
    let waiting = world.accept(to("bob@down.example")).await;
    let email = world.until_parked(waiting).await;
    let now = world.store.now();
    assert_eq!(email.status_text(3, now), "Waiting for down.example");
    let other = world.accept(to("ann@fine.example")).await;
    world.send_all(&[other]).await;
}

#[tokio::test]
async fn who_gets_nothing_any_more_reaches_no_transport() {
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    let added = world
        .operator
        .suppress("default", "Ann@Example.org", None, &someone())
        .await;
    assert!(added.unwrap());
    let id = world.accept(a_request()).await;
    let both = world
        .accept(EmailRequest {
            to: vec!["ann@example.org".into(), "bob@example.org".into()],
            ..a_request()
        })
        .await;
    world.start_sender();
    let email = world.until(id, Status::Dead).await;
    assert_eq!(email.state.dead_reason, Some(DeadReason::Suppressed));

    let attempt = world.next_attempt().await;
    let reached: Vec<_> = attempt
        .email
        .recipients
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(reached, ["bob@example.org"]);
    attempt.accept().await;
    let email = world.until(both, Status::Dead).await;
    assert_eq!(
        email.status_text(3, world.store.now()),
        "Delivered to 1 of 2"
    );
    world.verify().await;
}

/// A provider's gateway gave up waiting: the email may have been sent. However often that happens, no
/// copy is free and none is silent.
#[tokio::test]
async fn what_may_have_been_sent_is_paid_for_also_while_its_way_is_stopped() {
    let mut world = World::with_ways(three_attempts(), &["primary"], RULES);
    let ids = world.accept_many(RULES.failures as usize).await;
    world.start_sender();
    let timed_out = || {
        let answer = answer::Answer::new(Provider::Postmark, 504, None, "Gateway timeout");
        let failure = Failure::new(Stage::Request, Cause::Answer(answer));
        Answer::Results(RecipientResult::Failed(failure))
    };
    for _ in &ids {
        world.next_attempt().await.end(timed_out());
    }
    for id in &ids {
        let email = world.until(*id, Status::Failed).await;
        assert!(email.state.possible_duplicate);
        assert_eq!(
            (email.state.attempt_count, &email.state.waiting_for),
            (1, &None)
        );
    }
    let transport = world.operator.transports().await.unwrap().remove(0);
    assert_eq!(transport.condition, Condition::Stopped);
    world.verify().await;
}

/// It had its way out and waited for a connection; meanwhile it became useless, or someone stopped the
/// way by hand. Nothing leaves then.
#[tokio::test]
async fn what_became_unwanted_while_it_waited_for_a_connection_does_not_pass_the_gate() {
    let not_passed = || {
        let failure = Failure::new(Stage::Gate, Cause::LeaseLost);
        Answer::Results(RecipientResult::Failed(failure))
    };
    let mut world = World::with_ways(three_attempts(), &["smtp"], RULES);
    world.start_sender();
    let late = EmailRequest {
        expire_after: Some("30s".into()),
        ..to("ann@a.example.org")
    };
    let late = world.accept(late).await;
    let attempt = world.next_attempt().await;
    world.clock.advance(Duration::from_secs(31));
    let (open, answer) = attempt.gate().await;
    assert!(!open);
    answer.send(not_passed()).ok().unwrap();
    let email = world.until(late, Status::Dead).await;
    assert_eq!(email.state.dead_reason, Some(DeadReason::Expired));

    let paused = world.accept(to("ann@b.example.org")).await;
    let attempt = world.next_attempt().await;
    let switched = world.operator.pause_transport("smtp", &someone()).await;
    assert_eq!(switched.unwrap(), Switched::Done);
    let (open, answer) = attempt.gate().await;
    assert!(!open);
    answer.send(not_passed()).ok().unwrap();
    let email = world.until_parked(paused).await;
    assert_eq!(email.state.attempt_count, 0);
    world.verify().await;
}
