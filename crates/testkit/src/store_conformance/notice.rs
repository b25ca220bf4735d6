//! News of deaths, told at least once.

use std::collections::BTreeSet;

use posthaste_core::port::{Action, DeadNotice, NoticeId};
use posthaste_core::status::DeadReason;

use super::StoreFixture;
use super::scene::{ALL, HALF, LEASE, Scene, together};
use crate::{an_email, dead, sent, transient};

async fn take<F: StoreFixture>(scene: &Scene<'_, F>, most: usize) -> Vec<(NoticeId, DeadNotice)> {
    scene.store.take_notices(most, LEASE).await.expect("take")
}

async fn settle<F: StoreFixture>(scene: &Scene<'_, F>, told: &[NoticeId], untold: &[NoticeId]) {
    let settled = scene.store.settle_notices(told.to_vec(), untold.to_vec());
    settled.await.expect("settle");
}

pub async fn a_death_is_told_with_its_reason(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("sent"), sent()).await;
    scene.ended(an_email("failed"), transient(HALF)).await;
    assert_eq!(take(&scene, ALL).await, []);
    let given_up = dead(DeadReason::HardBounce);
    let (id, moment) = scene
        .timed(scene.ended(an_email("dead"), given_up.clone()))
        .await;
    let taken = take(&scene, ALL).await;
    assert_eq!(taken.len(), 1);
    let (_, notice) = &taken[0];
    assert_eq!(notice.email_id, id);
    assert_eq!(notice.message_key, "dead");
    assert_eq!(notice.reason, DeadReason::HardBounce);
    assert_eq!(notice.error, given_up.error);
    assert_eq!(notice.attempts, 1);
    moment.is(Some(notice.died_at));
}

pub async fn what_was_told_is_forgotten(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    let (seq, _) = take(&scene, ALL).await.remove(0);
    settle(&scene, &[seq], &[]).await;
    scene.advance(LEASE + HALF).await;
    assert_eq!(take(&scene, ALL).await, []);
    settle(&scene, &[], &[]).await;
}

pub async fn what_could_not_be_told_is_told_later(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for key in ["a", "b", "c"] {
        scene
            .ended(an_email(key), dead(DeadReason::HardBounce))
            .await;
    }
    let first = take(&scene, 2).await;
    let keys: Vec<_> = first.iter().map(|(_, n)| n.message_key.as_str()).collect();
    assert_eq!(keys, ["a", "b"], "the oldest first");
    settle(&scene, &[first[0].0], &[first[1].0]).await;
    let second = take(&scene, ALL).await;
    let keys: Vec<_> = second.iter().map(|(_, n)| n.message_key.as_str()).collect();
    assert_eq!(keys, ["b", "c"]);
}

pub async fn a_lost_teller_is_replaced(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    let lost = take(&scene, ALL).await;
    assert_eq!(take(&scene, ALL).await, [], "someone is at it");
    scene.advance(LEASE + HALF).await;
    assert_eq!(take(&scene, ALL).await, lost);
}

pub async fn a_death_that_was_taken_back_was_told_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    let (seq, _) = take(&scene, ALL).await.remove(0);
    settle(&scene, &[seq], &[]).await;
    scene.act(id, Action::Discard).await;
    scene.act(id, Action::Restore).await;
    assert_eq!(take(&scene, ALL).await, [], "it had died before");
}

pub async fn many_tellers_take_each_notice_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..20 {
        let email = an_email(&n.to_string());
        scene.ended(email, dead(DeadReason::HardBounce)).await;
    }
    let taken = together(8, |_| {
        let store = scene.store.clone();
        async move { store.take_notices(5, LEASE).await.expect("take") }
    });
    let taken: Vec<_> = taken
        .await
        .into_iter()
        .flatten()
        .map(|(seq, _)| seq)
        .collect();
    let different: BTreeSet<_> = taken.iter().collect();
    assert_eq!(different.len(), taken.len(), "one was taken twice");
    assert_eq!(taken.len() + take(&scene, ALL).await.len(), 20);
}

pub async fn erasing_an_email_leaves_no_error_to_tell(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    scene.act(id, Action::Erase).await;
    let (_, notice) = take(&scene, ALL).await.remove(0);
    assert_eq!(notice.error, None);
    assert_eq!(notice.reason, DeadReason::HardBounce);
}
