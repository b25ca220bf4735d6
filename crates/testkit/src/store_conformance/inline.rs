//! Emails whose callers wait for the first attempt.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::{Acted, Action, Finish, Opened, Opener, Started};
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};

use super::StoreFixture;
use super::scene::{BUDGET, HALF, HOUR, LEASE, Scene, TRANSPORT, WORKER, together};
use crate::{EmailBuilder, an_email, dead, sent, transient};

async fn open<F: StoreFixture>(scene: &Scene<'_, F>, email: EmailBuilder) -> Opened {
    let opened = scene
        .store
        .accept_begun(vec![email.build()], Opener::Caller, WORKER, LEASE)
        .await;
    let mut opened = opened.expect("accept");
    assert_eq!(opened.len(), 1);
    opened.remove(0).expect("accept")
}

async fn started<F: StoreFixture>(scene: &Scene<'_, F>, email: EmailBuilder) -> Started {
    match open(scene, email).await {
        Opened::Started(started) => *started,
        other => panic!("not started: {other:?}"),
    }
}

pub async fn an_email_is_accepted_and_begun_in_one_step(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let new = an_email("a").build();
    let (started, moment) = scene.timed(started(&scene, an_email("a"))).await;

    let state = scene.state(started.lease.id).await;
    assert_eq!(started.state, state, "what is answered is what is kept");
    assert_eq!(
        (state.status, state.phase),
        (Status::Sending, Phase::Preparing)
    );
    assert!(state.inline);
    assert_eq!((state.attempt_number, state.attempt_count), (1, 0));
    assert_eq!((state.lease_token, started.lease.token), (1, 1));
    assert_eq!(state.worker.as_deref(), Some(WORKER));
    moment.is(state.started_at);
    moment.is_followed_by(state.locked_until, LEASE);
    moment.is(Some(started.created_at));
    assert_eq!(started.content, new.content);
    assert_eq!(started.from, new.envelope.from);
    let to: Vec<_> = started.recipients.iter().map(|r| &r.address).collect();
    assert_eq!(to, new.envelope.recipients.iter().collect::<Vec<_>>());
    scene.assert_counted(&[(Status::Sending, 1)]).await;
    // Nobody else takes it meanwhile.
    assert_eq!(scene.refusal(started.lease.id).await, Refusal::InProgress);
    assert!(scene.begin_unticketed(10, scene.now()).await.is_empty());
    assert!(scene.claim(10).await.is_empty());
}

pub async fn the_same_again_is_told_of_the_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = started(&scene, an_email("a")).await.lease;
    match open(&scene, an_email("a")).await {
        Opened::Replayed(id, status) => assert_eq!((id, status), (first.id, Status::Sending)),
        other => panic!("not replayed: {other:?}"),
    }
    match open(&scene, an_email("a").payload("something else")).await {
        Opened::KeyConflict(id) => assert_eq!(id, first.id),
        other => panic!("no conflict: {other:?}"),
    }
    assert_eq!(scene.state(first.id).await.attempt_number, 1);
}

pub async fn of_many_callers_with_one_key_one_sends(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let store = &scene.store;
    let answers = together(16, |_| {
        let store = std::sync::Arc::clone(store);
        async move {
            let email = an_email("a").build();
            let mut opened = store
                .accept_begun(vec![email], Opener::Caller, WORKER, LEASE)
                .await;
            opened.as_mut().expect("accept").remove(0).expect("accept")
        }
    })
    .await;
    let started = answers.iter().filter(|a| matches!(a, Opened::Started(_)));
    assert_eq!(started.count(), 1, "{answers:?}");
}

pub async fn the_first_attempt_is_not_counted_and_later_ones_are(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = started(&scene, an_email("a")).await.lease;
    assert!(scene.pass_gate(lease).await);
    let (finished, moment) = scene.timed(scene.finish(lease, transient(HOUR))).await;
    let state = finished.expect("a lease that holds");
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 0));
    assert_eq!(state.last_error, transient(HOUR).error);
    moment.is_followed_by(state.next_attempt_at, HOUR);

    scene.advance(HOUR + HALF).await;
    assert_eq!(scene.schedule().await, [lease.id]);
    let state = scene.attempt(lease.id, transient(HOUR)).await;
    assert_eq!((state.attempt_number, state.attempt_count), (2, 1));
    assert_eq!(
        scene.outcomes(lease.id).await,
        [(1, Outcome::Transient), (2, Outcome::Transient)]
    );
}

pub async fn one_that_is_refused_for_good_is_dead_without_a_count(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = started(&scene, an_email("a")).await.lease;
    let finished = scene.finish(lease, dead(DeadReason::HardBounce)).await;
    let state = finished.expect("a lease that holds");
    assert_eq!((state.status, state.attempt_count), (Status::Dead, 0));
    assert!(matches!(
        scene.act(lease.id, Action::Retry).await,
        Acted::Done(Status::Pending)
    ));
    // From now on every attempt counts.
    let state = scene.attempt(lease.id, transient(HOUR)).await;
    assert_eq!((state.attempt_number, state.attempt_count), (2, 1));
}

pub async fn a_caller_lost_after_the_gate_leaves_it_uncertain_and_uncounted(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let lease = started(&scene, an_email("a")).await.lease;
    assert!(scene.pass_gate(lease).await);
    scene.advance(LEASE + HALF).await;
    assert_eq!(scene.rescue().await.len(), 1);
    let state = scene.state(lease.id).await;
    assert_eq!((state.status, state.attempt_count), (Status::Unknown, 0));
    assert_eq!(state.unknown_count, 1);
    // The proof comes late.
    let state = scene.finish(lease, sent()).await.expect("proof");
    assert_eq!((state.status, state.attempt_count), (Status::Sent, 0));
    assert_eq!(state.unknown_count, 0);
}

pub async fn a_caller_lost_before_the_gate_leaves_it_to_others(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = started(&scene, an_email("a")).await.lease;
    scene.advance(LEASE + HALF).await;
    assert_eq!(scene.rescue().await.len(), 1);
    assert_eq!(scene.schedule().await, [lease.id]);
    let state = scene.attempt(lease.id, transient(HOUR)).await;
    assert_eq!((state.attempt_number, state.attempt_count), (2, 1));
}

pub async fn one_that_is_handed_back_waits_as_any_other(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = started(&scene, an_email("a")).await.lease;
    scene.release(lease).await;
    assert_eq!(scene.status(lease.id).await, Status::Pending);
    let found = scene.begin_unticketed(10, scene.now()).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].lease.id, lease.id);
}

async fn finish_and_remove<F: StoreFixture>(scene: &Scene<'_, F>, started: &Started, ok: bool) {
    let finish = Finish {
        lease: started.lease,
        decision: if ok { sent() } else { transient(HOUR) },
        transport: Some(TRANSPORT.into()),
        budget: BUDGET,
        removes_sent: true,
    };
    let finished = scene.store.finish(vec![finish]).await.expect("finish");
    let status = finished[0].as_ref().expect("a lease that holds").status;
    assert_eq!(status, if ok { Status::Sent } else { Status::Failed });
}

pub async fn one_that_was_sent_is_removed_at_once_if_so_wished(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let kept: EmailId = scene.accept(an_email("kept")).await;
    let failed = started(&scene, an_email("failed")).await;
    finish_and_remove(&scene, &failed, false).await;
    let gone = started(&scene, an_email("gone")).await;
    finish_and_remove(&scene, &gone, true).await;

    let id = gone.lease.id;
    assert!(scene.store.find(id).await.expect("find").is_none());
    assert!(scene.store.content(id).await.expect("content").is_none());
    assert!(
        scene
            .store
            .attempts(&[id])
            .await
            .expect("attempts")
            .is_empty()
    );
    assert_eq!(scene.status(kept).await, Status::Pending);
    assert_eq!(scene.status(failed.lease.id).await, Status::Failed);
    scene
        .assert_counted(&[(Status::Pending, 1), (Status::Failed, 1)])
        .await;
    let statistics = scene.store.statistics().await.expect("statistics");
    assert_eq!((statistics.accepted, statistics.pruned), (3, 1));
    assert_eq!(statistics.sent_last_hour, 1);
    // A second word about it is stale, and its key is free again.
    let again = scene.finish(gone.lease, sent()).await;
    assert_eq!(again, Err(Refusal::StaleToken));
    scene.advance(Duration::from_secs(1)).await;
    started(&scene, an_email("gone")).await;
}
