//! Emails for which it became too late, and that are sent all the same.

use posthaste_core::port::{Acted, Action, Pick};
use posthaste_core::status::{DeadReason, Status};

use super::StoreFixture;
use super::scene::{ALL, HOUR, LEASE, Scene, WORKER};
use crate::{an_email, budgets, dead, parking, sent, transient};

pub async fn what_is_too_late_is_only_sent_again_if_an_operator_insists(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let email = an_email("a").expires_at(scene.now() + HOUR);
    let id = scene.accept_unticketed(email).await;
    scene.advance(2 * HOUR).await;
    assert!(scene.claim(ALL).await[0].expired);
    assert_eq!(scene.act(id, Action::Retry).await, Acted::Expired);
    let done = scene.act(id, Action::RetryExpired).await;
    assert_eq!(done, Acted::Done(Status::Pending));
    let again = scene.act(id, Action::RetryExpired).await;
    assert_eq!(again, Acted::Unchanged(Status::Pending));
    assert!(scene.state(id).await.ignores_expiry);
    // From now on it is never too late, by whichever way it is found.
    assert_eq!(scene.schedule().await, [id]);
    let state = scene.attempt(id, transient(HOUR)).await;
    assert!(state.ignores_expiry);
    scene.advance(HOUR).await;
    let begun = scene.begin_unticketed(ALL, scene.now()).await;
    assert_eq!(begun[0].lease.id, id);
    let parked = vec![(begun[0].lease, parking("primary", HOUR))];
    assert_eq!(scene.store.park(parked).await.expect("park"), [true]);
    scene.advance(HOUR).await;
    let found = scene
        .store
        .begin_parked("primary", Pick::UpTo(ALL), WORKER, LEASE, &budgets())
        .await;
    let found = found.expect("begin parked");
    assert!(found.dead.is_empty());
    let lease = found.started[0].lease;
    scene.release(lease).await;
    assert_eq!(scene.begin_unticketed(ALL, scene.now()).await.len(), 1);
}

pub async fn an_ordinary_retry_takes_that_back(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a").expires_at(scene.now() + 5 * HOUR);
    let id = scene.ended(email, dead(DeadReason::HardBounce)).await;
    scene.act(id, Action::RetryExpired).await;
    assert!(scene.state(id).await.ignores_expiry);
    scene.attempt(id, dead(DeadReason::HardBounce)).await;
    let done = scene.act(id, Action::Retry).await;
    assert_eq!(done, Acted::Done(Status::Pending));
    assert!(!scene.state(id).await.ignores_expiry);
    scene.advance(6 * HOUR).await;
    assert!(scene.claim(ALL).await[0].expired);
}

pub async fn what_was_erased_or_sent_is_not_sent_again_either(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let erased = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    scene.act(erased, Action::Erase).await;
    assert_eq!(scene.act(erased, Action::RetryExpired).await, Acted::Erased);
    let done = scene.ended(an_email("b"), sent()).await;
    let refused = scene.act(done, Action::RetryExpired).await;
    assert!(
        matches!(refused, Acted::Refused(_, Status::Sent)),
        "{refused:?}"
    );
}
