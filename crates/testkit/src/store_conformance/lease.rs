//! Keeping, losing and handing back the right to send.

use posthaste_core::port::Lease;
use posthaste_core::status::{Outcome, Phase, Status};

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, LEASE, Scene};
use crate::{an_email, sent, transient};

pub async fn renewing_extends_a_lease(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let started = scene.begin(id).await;
    for _ in 0..3 {
        scene.advance(HALF).await;
        let (kept, moment) = scene.timed(scene.renew(started.lease)).await;
        assert!(kept);
        moment.is_followed_by(scene.state(id).await.locked_until, LEASE);
        assert!(scene.rescue().await.is_empty());
    }
    let state = scene.state(id).await;
    assert_eq!(state.lease_token, started.lease.token);
    assert_eq!(state.phase, Phase::Preparing);
    scene
        .finish(started.lease, sent())
        .await
        .expect("a lease that holds");
}

pub async fn a_lost_lease_is_not_renewed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lost = scene.begin(id).await.lease;
    scene.advance(LEASE + HALF).await;
    assert_eq!(scene.rescue().await.len(), 1);
    let before = scene.state(id).await;
    assert!(!scene.renew(lost).await);
    assert!(!scene.pass_gate(lost).await);
    assert_eq!(scene.state(id).await, before);
    // Nor when someone else holds the email.
    scene.schedule().await;
    let held = scene.begin(id).await.lease;
    let answers = scene.store.renew(vec![lost, held], LEASE).await;
    assert_eq!(answers.expect("renew"), [false, true]);
}

pub async fn the_gate_opens_only_for_the_present_lease(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    for token in [lease.token - 1, lease.token + 1] {
        let wrong = Lease { token, ..lease };
        assert!(!scene.pass_gate(wrong).await);
    }
    assert_eq!(scene.state(id).await.phase, Phase::Preparing);
    assert!(scene.pass_gate(lease).await);
    assert_eq!(scene.state(id).await.phase, Phase::Committing);
    scene
        .finish(lease, sent())
        .await
        .expect("a lease that holds");
    assert!(!scene.pass_gate(lease).await, "it is over");
    assert_eq!(scene.state(id).await.phase, Phase::Idle);
}

pub async fn a_batch_at_the_gate_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut leases = Vec::new();
    for key in ["a", "b", "c"] {
        let id = scene.accept(an_email(key)).await;
        leases.push(scene.begin(id).await.lease);
    }
    scene.release(leases[1]).await;
    let ways = ["primary", "secondary", "third"];
    let passages = leases.iter().copied().zip(ways.map(Into::into));
    let passed = scene.store.pass_gate(passages.collect()).await;
    assert_eq!(passed.expect("gate"), [true, false, true]);
    for (lease, way) in leases.iter().zip([Some("primary"), None, Some("third")]) {
        let state = scene.state(lease.id).await;
        assert_eq!(state.transport.as_deref(), way);
    }
}

pub async fn releasing_spends_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let (_, moment) = scene.timed(scene.release(lease)).await;
    let state = scene.state(id).await;
    assert_eq!((state.status, state.phase), (Status::Pending, Phase::Idle));
    assert_eq!((state.attempt_number, state.attempt_count), (1, 0));
    assert_eq!((state.locked_until, state.worker), (None, None));
    assert_eq!(state.last_queued_at, None, "it has no ticket any more");
    moment.is(state.next_attempt_at);
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Cancelled)]);
    scene.assert_counted(&[(Status::Pending, 1)]).await;
    // The scheduler gives it a new ticket.
    assert_eq!(scene.schedule().await, [id]);
    scene.attempt(id, sent()).await;
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [(1, Outcome::Cancelled), (2, Outcome::Sent)]);
}

pub async fn releasing_a_retry_keeps_its_count(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    scene.release(lease).await;
    let state = scene.state(id).await;
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 1));
    assert_eq!(scene.claim(ALL).await.len(), 1, "it is due at once");
}

pub async fn a_lost_lease_releases_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let wrong = Lease {
        token: lease.token + 1,
        ..lease
    };
    let before = scene.state(id).await;
    scene.release(wrong).await;
    assert_eq!(scene.state(id).await, before);
    scene
        .finish(lease, sent())
        .await
        .expect("a lease that holds");
    scene.release(lease).await;
    assert_eq!(scene.status(id).await, Status::Sent);
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Sent)]);
}
