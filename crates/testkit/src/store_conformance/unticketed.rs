//! Emails whose ticket was lost, late or never made.

use std::collections::BTreeSet;

use posthaste_core::port::Started;
use posthaste_core::status::{DeadReason, Phase, Status};

use super::scene::{ALL, HALF, HOUR, LEASE, Scene, WORKER, together};
use super::{StoreFixture, same_ids};
use crate::{an_email, budgets, sent, transient};

fn ids(started: &[Started]) -> Vec<posthaste_core::email::EmailId> {
    started.iter().map(|started| started.lease.id).collect()
}

pub async fn one_that_was_never_queued_is_begun_at_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a");
    let content = email.clone().build().content;
    let id = scene.accept_unticketed(email).await;
    let (started, moment) = scene
        .timed(scene.begin_unticketed(ALL, scene.now() - HOUR))
        .await;
    assert_eq!(ids(&started), [id]);
    assert_eq!(started[0].content, content);
    let state = scene.state(id).await;
    assert_eq!(started[0].state, state);
    assert_eq!(
        (state.status, state.phase),
        (Status::Sending, Phase::Preparing)
    );
    moment.is_followed_by(state.locked_until, LEASE);
    scene
        .finish(started[0].lease, sent())
        .await
        .expect("a lease that holds");
}

pub async fn one_that_was_queued_long_ago_is_begun(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.advance(HALF).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert!(begun.is_empty(), "its ticket may still come");
    scene.advance(HOUR).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert_eq!(ids(&begun), [id]);
}

pub async fn one_whose_retry_was_queued_long_ago_is_begun(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(2 * HOUR).await;
    assert_eq!(scene.schedule().await, [id]);
    scene.advance(HALF).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert!(begun.is_empty(), "its ticket may still come");
    scene.advance(HOUR).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert_eq!(ids(&begun), [id]);
    assert_eq!(begun[0].state.attempt_number, 2);
}

pub async fn one_that_a_scheduler_is_publishing_is_left_alone(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(3 * HOUR).await;
    assert_eq!(scene.claim(ALL).await.len(), 1);
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert!(begun.is_empty());
    assert_eq!(scene.status(id).await, Status::RetryQueued);
}

pub async fn one_that_failed_is_begun_when_no_scheduler_came(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR + HALF).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert!(begun.is_empty(), "a scheduler may still come");
    scene.advance(HOUR).await;
    let begun = scene.begin_unticketed(ALL, scene.now() - HOUR).await;
    assert_eq!(ids(&begun), [id]);
    assert_eq!(begun[0].state.attempt_number, 2);
    scene.assert_counted(&[(Status::Sending, 1)]).await;
}

pub async fn one_that_is_not_due_is_left_alone(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let later = an_email("later").send_at(scene.now() + 3 * HOUR);
    scene.accept_unticketed(later).await;
    scene.ended(an_email("failed"), transient(3 * HOUR)).await;
    scene.advance(2 * HOUR).await;
    assert!(scene.begin_unticketed(ALL, scene.now()).await.is_empty());
}

pub async fn no_more_are_begun_than_asked_for(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..4 {
        scene
            .accept_unticketed(an_email(&format!("never {n}")))
            .await;
        scene.accept(an_email(&format!("long ago {n}"))).await;
        scene
            .ended(an_email(&format!("failed {n}")), transient(HALF))
            .await;
    }
    scene.advance(2 * HOUR).await;
    let mut begun = BTreeSet::new();
    for (most, expected) in [(0, 0), (5, 5), (6, 6), (6, 1), (6, 0)] {
        let started = scene.begin_unticketed(most, scene.now() - HOUR).await;
        assert_eq!(started.len(), expected);
        begun.extend(ids(&started));
    }
    assert_eq!(begun.len(), 12);
    scene.assert_counted(&[(Status::Sending, 12)]).await;
}

pub async fn each_is_begun_once_by_many_senders(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 0..60 {
        let id = scene.accept_unticketed(an_email(&format!("{n}"))).await;
        expected.push(id);
    }
    let before = scene.now();
    let begun = together(8, |_| {
        let store = scene.store.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let begun = store
                    .begin_unticketed(20, before, WORKER, LEASE, &budgets())
                    .await
                    .expect("begin unticketed")
                    .started;
                mine.extend(ids(&begun));
                // Others may have been faster with all that this one saw.
                let waiting = store.next_due().await.expect("next due");
                if begun.is_empty() && waiting.is_none() {
                    return mine;
                }
            }
        }
    })
    .await;
    same_ids(begun.concat(), expected);
    scene.assert_counted(&[(Status::Sending, 60)]).await;
}

pub async fn one_whose_budget_is_spent_dies_instead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a").max_attempts(1), transient(HOUR))
        .await;
    scene.advance(3 * HOUR).await;
    let found = scene.find_unticketed(ALL, scene.now()).await;
    assert!(found.started.is_empty());
    assert_eq!(found.dead.len(), 1);
    assert!(found.dead[0].id == id && found.dead[0].exhausted);
    let state = scene.state(id).await;
    assert_eq!(state.status, Status::Dead);
    assert_eq!(state.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn one_that_came_too_late_dies_instead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let expires_at = scene.now() + 2 * HOUR;
    let new = an_email("new").expires_at(expires_at);
    let new = scene.accept_unticketed(new).await;
    let failed = an_email("failed").expires_at(expires_at);
    let failed = scene.ended(failed, transient(HOUR)).await;
    scene.advance(3 * HOUR).await;
    let found = scene.find_unticketed(ALL, scene.now()).await;
    assert!(found.started.is_empty());
    assert!(found.dead.iter().all(|due| due.expired));
    same_ids(found.dead.iter().map(|due| due.id), [new, failed]);
    for id in [new, failed] {
        let state = scene.state(id).await;
        assert_eq!(state.dead_reason, Some(DeadReason::Expired));
    }
    scene.assert_counted(&[(Status::Dead, 2)]).await;
}

pub async fn a_backlog_of_new_emails_does_not_hold_up_a_retry(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let retry = scene.ended(an_email("retry"), transient(HOUR)).await;
    for n in 0..20 {
        scene.accept_unticketed(an_email(&n.to_string())).await;
    }
    scene.advance(HOUR + HALF).await;
    let mut begun = Vec::new();
    for _ in 0..2 {
        begun.extend(ids(&scene.begin_unticketed(3, scene.now()).await));
    }
    assert!(begun.contains(&retry));
    assert!(begun.len() > 1, "nor does it hold up the others");
}
