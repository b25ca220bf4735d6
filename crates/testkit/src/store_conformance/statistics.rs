//! Numbers about emails.

use posthaste_core::port::Action;
use posthaste_core::status::{DeadReason, Status};

use super::StoreFixture;
use super::scene::{HALF, HOUR, Scene};
use crate::{an_email, dead, sent, transient};

pub async fn an_empty_store_has_zeros_for_everything(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let numbers = scene.store.statistics().await.expect("statistics");
    let statuses: Vec<_> = numbers.by_status.keys().copied().collect();
    assert_eq!(statuses, Status::ALL, "each has its number");
    assert!(numbers.by_status.values().all(|n| *n == 0));
    assert_eq!((numbers.accepted, numbers.pruned), (0, 0));
    assert_eq!((numbers.sent_last_hour, numbers.sent_last_day), (0, 0));
    assert_eq!((numbers.dead_last_day, numbers.due), (0, 0));
    assert_eq!(numbers.oldest_waiting, None);
}

pub async fn what_was_sent_and_died_is_counted_by_age(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("a"), sent()).await;
    let given_up = scene
        .ended(an_email("b"), dead(DeadReason::HardBounce))
        .await;
    let numbers = async || scene.store.statistics().await.expect("statistics");
    let now = numbers().await;
    assert_eq!((now.sent_last_hour, now.sent_last_day), (1, 1));
    assert_eq!((now.accepted, now.dead_last_day), (2, 1));
    // Taking a discard back is no second death.
    scene.act(given_up, Action::Discard).await;
    scene.act(given_up, Action::Restore).await;
    scene.advance(2 * HOUR).await;
    scene.ended(an_email("c"), sent()).await;
    let later = numbers().await;
    assert_eq!((later.sent_last_hour, later.sent_last_day), (1, 2));
    assert_eq!(later.dead_last_day, 1);
    scene.advance(24 * HOUR).await;
    let tomorrow = numbers().await;
    assert_eq!((tomorrow.sent_last_hour, tomorrow.sent_last_day), (0, 0));
    assert_eq!((tomorrow.accepted, tomorrow.dead_last_day), (3, 0));
}

pub async fn what_waits_is_counted_from_when_it_was_due(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let numbers = async || scene.store.statistics().await.expect("statistics");
    let later = scene.now() + 5 * HOUR;
    scene.accept(an_email("later").send_at(later)).await;
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let due_at = scene.state(failed).await.next_attempt_at;
    let now = numbers().await;
    assert_eq!((now.oldest_waiting, now.due), (None, 0), "none is due");
    scene.advance(HOUR + HALF).await;
    let then = numbers().await;
    assert_eq!((then.oldest_waiting, then.due), (due_at, 1));
    let waiting = scene.accept(an_email("waiting")).await;
    scene.schedule().await;
    let then = numbers().await;
    assert_eq!((then.oldest_waiting, then.due), (due_at, 0), "it is queued");
    scene.attempt(failed, sent()).await;
    let accepted = scene.state(waiting).await.next_attempt_at;
    assert_eq!(numbers().await.oldest_waiting, accepted);
    scene.advance(HALF).await;
    let unticketed = scene.accept_unticketed(an_email("unticketed")).await;
    assert_eq!(numbers().await.oldest_waiting, accepted);
    scene.attempt(waiting, sent()).await;
    let accepted = scene.state(unticketed).await.next_attempt_at;
    assert_eq!(numbers().await.oldest_waiting, accepted, "without a ticket");
}
