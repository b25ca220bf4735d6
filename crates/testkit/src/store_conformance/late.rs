//! Proof that comes after everybody gave the sender up.

use posthaste_core::decision::Conclusion;
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::Action;
use posthaste_core::status::{DeadReason, Outcome, Status};

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, LEASE, Scene};
use crate::{an_email, dead, sent, transient, unknown_hold, unknown_resend};

pub async fn a_late_sent_settles_an_unknown_fate(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let started = scene.uncertain(an_email("a")).await;
    let id = started.lease.id;
    scene.assert_counted(&[(Status::Unknown, 1)]).await;
    let (finished, moment) = scene.timed(scene.finish(started.lease, sent())).await;
    let state = finished.expect("proof");
    assert_eq!(scene.state(id).await, state);
    assert_eq!((state.status, state.next_attempt_at), (Status::Sent, None));
    // The attempt was counted as unknown; it was not.
    assert_eq!((state.attempt_count, state.unknown_count), (0, 0));
    moment.is(state.sent_at);
    let attempts = scene.find(id).await.attempts;
    assert_eq!(attempts.len(), 1);
    assert_eq!(
        (attempts[0].number, attempts[0].outcome),
        (1, Outcome::Sent)
    );
    assert_eq!(attempts[0].started_at, started.now);
    assert_eq!(attempts[0].error, None);
    assert_eq!(
        attempts[0].worker.as_deref(),
        started.state.worker.as_deref()
    );
    scene.assert_counted(&[(Status::Sent, 1)]).await;
    assert!(scene.undecided().await.is_empty());
}

pub async fn a_late_sent_stops_the_resending(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let settled = scene.uncertain(an_email("settled")).await.lease;
    let resend = Conclusion::Retry {
        delay: HOUR,
        possible_duplicate: true,
    };
    let settlements = vec![(settled.id, resend)];
    scene.store.settle(settlements).await.expect("settle");
    assert_eq!(scene.status(settled.id).await, Status::Failed);

    let id = scene.accept(an_email("decided")).await;
    let decided = scene.begin(id).await.lease;
    assert!(scene.pass_gate(decided).await);
    let finished = scene.finish(decided, unknown_resend(HOUR)).await;
    assert_eq!(finished.expect("a lease that holds").status, Status::Failed);

    for lease in [settled, decided] {
        let state = scene.finish(lease, sent()).await.expect("proof");
        assert_eq!((state.status, state.attempt_count), (Status::Sent, 0));
        assert_eq!(scene.outcomes(lease.id).await, [(1, Outcome::Sent)]);
    }
    scene.advance(2 * HOUR).await;
    assert!(scene.schedule().await.is_empty());
    scene.assert_counted(&[(Status::Sent, 2)]).await;
}

pub async fn a_late_sent_wins_until_the_next_attempt_begins(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut leases = Vec::new();
    for key in ["proven", "begun"] {
        let id = scene.accept(an_email(key)).await;
        let lease = scene.begin(id).await.lease;
        assert!(scene.pass_gate(lease).await);
        let finished = scene.finish(lease, unknown_resend(HOUR)).await;
        finished.expect("a lease that holds");
        leases.push(lease);
    }
    scene.advance(HOUR).await;
    assert_eq!(scene.schedule().await.len(), 2);
    let (proven, begun) = (leases[0], leases[1]);
    let state = scene.finish(proven, sent()).await.expect("proof");
    assert_eq!(state.status, Status::Sent);
    assert_eq!(
        scene.refusal(proven.id).await,
        Refusal::AlreadyFinished(Status::Sent)
    );
    let newer = scene.begin(begun.id).await.lease;
    assert_eq!(scene.finish(begun, sent()).await, Err(Refusal::StaleToken));
    scene
        .finish(newer, sent())
        .await
        .expect("a lease that holds");
    let outcomes = scene.outcomes(begun.id).await;
    assert_eq!(outcomes, [(1, Outcome::Unknown), (2, Outcome::Sent)]);
}

pub async fn a_late_sent_of_a_lost_worker_is_believed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    scene.advance(LEASE + HALF).await;
    scene.rescue().await;
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Lost)]);
    let state = scene.finish(lease, sent()).await.expect("proof");
    assert_eq!((state.status, state.attempt_count), (Status::Sent, 0));
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Sent)]);
}

pub async fn a_late_failure_proves_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = scene.uncertain(an_email("a")).await.lease;
    let before = scene.find(lease.id).await;
    for decision in [
        transient(HOUR),
        dead(DeadReason::HardBounce),
        unknown_hold(),
    ] {
        let finished = scene.finish(lease, decision).await;
        assert_eq!(finished, Err(Refusal::StaleToken));
    }
    let after = scene.find(lease.id).await;
    assert_eq!(
        (after.state, after.attempts),
        (before.state, before.attempts)
    );
    assert_eq!(
        scene.store.undecided(ALL).await.expect("undecided").len(),
        1
    );
}

pub async fn a_late_sent_after_a_replay_is_stale(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = scene.uncertain(an_email("a")).await.lease;
    scene.act(lease.id, Action::Retry).await;
    assert_eq!(scene.finish(lease, sent()).await, Err(Refusal::StaleToken));
    assert_eq!(scene.status(lease.id).await, Status::Pending);
    scene.schedule().await;
    scene.attempt(lease.id, sent()).await;
    assert!(scene.state(lease.id).await.possible_duplicate);
    let outcomes = scene.outcomes(lease.id).await;
    assert_eq!(outcomes, [(1, Outcome::Unknown), (2, Outcome::Sent)]);
}
