//! Leases that nobody renews, and fates that nobody knows.

use posthaste_core::decision::Conclusion;
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};

use super::scene::{ALL, HALF, HOUR, LEASE, Scene, WORKER, together};
use super::{StoreFixture, same_ids};
use crate::{an_email, sent, transient};

pub async fn a_lease_that_holds_is_left_alone(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.begin(id).await;
    scene.advance(HALF).await;
    assert!(scene.rescue().await.is_empty());
    assert_eq!(scene.status(id).await, Status::Sending);
}

pub async fn a_loss_before_the_gate_is_retried_freely(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.begin(id).await;
    scene.advance(LEASE + HALF).await;
    let (rescued, moment) = scene.timed(scene.rescue()).await;
    assert_eq!(rescued.len(), 1);
    assert_eq!((rescued[0].id, rescued[0].phase), (id, Phase::Preparing));

    let state = scene.state(id).await;
    assert_eq!(rescued[0].state, state);
    assert_eq!((state.status, state.phase), (Status::Failed, Phase::Idle));
    assert_eq!((state.attempt_count, state.lost_count), (0, 1));
    assert_eq!((state.locked_until, state.worker), (None, None));
    moment.is(state.next_attempt_at);
    let attempt = &scene.find(id).await.attempts[0];
    assert_eq!((attempt.number, attempt.outcome), (1, Outcome::Lost));
    assert_eq!(attempt.worker.as_deref(), Some(WORKER));
    assert!(attempt.error.is_some());
    assert!(scene.rescue().await.is_empty(), "once is enough");

    assert_eq!(scene.schedule().await, [id]);
    let state = scene.attempt(id, sent()).await;
    assert_eq!((state.status, state.attempt_count), (Status::Sent, 0));
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [(1, Outcome::Lost), (2, Outcome::Sent)]);
}

pub async fn the_third_loss_is_poison(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    for losses in 1..=3 {
        let started = scene.begin(id).await;
        assert_eq!(started.state.is_sent_alone(), losses == 3);
        if losses == 3 {
            assert!(!scene.pass_gate(started.lease).await, "not before its turn");
            assert!(scene.store.prepare(started.lease).await.expect("prepare"));
        }
        scene.advance(LEASE + HALF).await;
        let rescued = scene.rescue().await;
        assert_eq!(rescued[0].state.lost_count, losses);
        scene.schedule().await;
    }
    let state = scene.state(id).await;
    assert_eq!((state.status, state.attempt_count), (Status::Dead, 0));
    assert_eq!(state.dead_reason, Some(DeadReason::Poison));
    assert!(state.finished_at.is_some() && state.locked_until.is_none());
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [1, 2, 3].map(|number| (number, Outcome::Lost)));
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn a_loss_while_it_waits_to_be_alone_is_not_counted(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    for losses in [1, 2, 2, 2] {
        let started = scene.begin(id).await;
        scene.advance(LEASE + HALF).await;
        let rescued = scene.rescue().await;
        assert_eq!(rescued[0].state.lost_count, losses);
        assert!(!scene.store.prepare(started.lease).await.expect("prepare"));
        scene.schedule().await;
    }
    assert_eq!(scene.state(id).await.status, Status::RetryQueued);
}

pub async fn a_loss_after_the_gate_is_of_unknown_fate(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a")
        .policy("notification")
        .expires_at(scene.now() + 9 * HOUR);
    let new = email.clone().build();
    let id = scene.accept(email).await;
    let lease = scene.begin(id).await.lease;
    assert!(scene.pass_gate(lease).await);
    scene.advance(LEASE + HALF).await;
    let rescued = scene.rescue().await;
    assert_eq!((rescued[0].id, rescued[0].phase), (id, Phase::Committing));
    let state = scene.state(id).await;
    assert_eq!(rescued[0].state, state);
    assert_eq!((state.status, state.attempt_count), (Status::Unknown, 1));
    assert_eq!((state.unknown_count, state.lost_count), (1, 0));
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Unknown)]);
    scene.assert_counted(&[(Status::Unknown, 1)]).await;

    let undecided = scene.undecided().await;
    assert_eq!((undecided.len(), undecided[0].id), (1, id));
    assert_eq!(undecided[0].state, state);
    assert_eq!(undecided[0].policy, new.policy);
    assert_eq!(undecided[0].expires_at, new.expires_at);
    assert!(scene.schedule().await.is_empty(), "its policy comes first");
}

pub async fn a_policy_may_decide_to_send_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.uncertain(an_email("a")).await.lease.id;
    let resend = Conclusion::Retry {
        delay: HOUR,
        possible_duplicate: true,
    };
    let settling = scene.store.settle(vec![(id, resend.clone())]);
    let (settled, moment) = scene.timed(settling).await;
    settled.expect("settle");
    let state = scene.state(id).await;
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 1));
    assert!(state.possible_duplicate);
    moment.is_followed_by(state.next_attempt_at, HOUR);
    assert!(scene.undecided().await.is_empty());
    // Settling it twice settles it once.
    scene.advance(HALF).await;
    scene
        .store
        .settle(vec![(id, resend)])
        .await
        .expect("settle");
    assert_eq!(scene.state(id).await, state);
    scene.advance(HALF).await;
    assert_eq!(scene.schedule().await, [id]);
    scene.attempt(id, sent()).await;
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [(1, Outcome::Unknown), (2, Outcome::Sent)]);
}

pub async fn a_policy_may_decide_to_hold(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.uncertain(an_email("a")).await.lease.id;
    let settled = scene.store.settle(vec![(id, Conclusion::Hold)]).await;
    settled.expect("settle");
    let state = scene.state(id).await;
    assert_eq!(
        (state.status, state.next_attempt_at),
        (Status::Unknown, None)
    );
    assert!(scene.undecided().await.is_empty());
    scene.advance(10 * HOUR).await;
    assert!(scene.schedule().await.is_empty());
    scene.assert_counted(&[(Status::Unknown, 1)]).await;
}

pub async fn emails_of_a_lost_scheduler_go_back(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let later = an_email("later").send_at(scene.now() + HOUR);
    let later = scene.accept(later).await;
    let due_at = scene.state(failed).await.next_attempt_at;
    scene.advance(HOUR).await;
    assert_eq!(scene.claim(ALL).await.len(), 2);
    scene.advance(HALF).await;
    assert!(scene.rescue().await.is_empty(), "it may be publishing");
    scene.advance(HOUR).await;
    let rescued = scene.rescue().await;
    assert!(rescued.iter().all(|rescued| rescued.phase == Phase::Idle));
    same_ids(rescued.iter().map(|rescued| rescued.id), [failed, later]);
    let state = scene.state(failed).await;
    assert_eq!((state.status, state.lost_count), (Status::Failed, 0));
    assert_eq!((state.next_attempt_at, state.locked_until), (due_at, None));
    assert_eq!(scene.status(later).await, Status::Pending);
    assert_eq!(scene.outcomes(failed).await, [(1, Outcome::Transient)]);
    same_ids(scene.schedule().await, [failed, later]);
}

pub async fn no_more_are_rescued_than_asked_for(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..5 {
        let id = scene.accept(an_email(&format!("{n}"))).await;
        let lease = scene.begin(id).await.lease;
        assert!(scene.pass_gate(lease).await);
    }
    scene.advance(LEASE + HALF).await;
    for expected in [2, 2, 1, 0] {
        let rescued = scene.store.rescue(2).await.expect("rescue");
        assert_eq!(rescued.len(), expected);
    }
    assert_eq!(scene.store.undecided(3).await.expect("undecided").len(), 3);
    scene.assert_counted(&[(Status::Unknown, 5)]).await;
}

pub async fn many_rescuers_rescue_each_email_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 0..40 {
        let id = scene.accept(an_email(&format!("{n}"))).await;
        scene.begin(id).await;
        expected.push(id);
    }
    scene.advance(LEASE + HALF).await;
    let rescued = together(6, |_| {
        let store = scene.store.clone();
        async move { store.rescue(ALL).await.expect("rescue") }
    })
    .await;
    same_ids(rescued.iter().flatten().map(|rescued| rescued.id), expected);
    let lost = scene.list(Default::default()).await;
    for id in lost {
        assert_eq!(scene.state(id).await.lost_count, 1);
    }
}
