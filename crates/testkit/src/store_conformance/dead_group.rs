//! Dead letters by what they died of.

use posthaste_core::port::Action;
use posthaste_core::status::DeadReason;

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, Scene};
use crate::{an_email, dead_of, sent, transient};

pub async fn dead_letters_are_grouped_by_fingerprint(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let refused = |who: &str| {
        let error = format!("550 5.1.1 <{who}@example.org> no such user");
        dead_of(DeadReason::HardBounce, &error)
    };
    let blocked = dead_of(DeadReason::PolicyBlocked, "550 5.7.1 Blocked");
    let mut died = Vec::new();
    for who in ["ann", "bob", "carl"] {
        scene.advance(HOUR).await;
        died.push(scene.ended(an_email(who), refused(who)).await);
    }
    scene
        .ended(an_email("b").owner("shop"), blocked.clone())
        .await;
    // These are no dead letters, or not any more.
    scene.ended(an_email("sent"), sent()).await;
    scene.ended(an_email("failed"), transient(HOUR)).await;
    let gone = scene.ended(an_email("gone"), refused("dora")).await;
    scene.act(gone, Action::Discard).await;
    let replayed = scene.ended(an_email("replayed"), refused("emil")).await;
    scene.act(replayed, Action::Retry).await;

    let groups = scene.store.dead_groups(None).await.expect("groups");
    assert_eq!(groups.len(), 2);
    let [users, policy] = &groups[..] else {
        panic!("{groups:?}")
    };
    assert_eq!((users.count, policy.count), (3, 1), "most first");
    assert_eq!(Some(&users.fingerprint), refused("x").fingerprint.as_ref());
    assert_eq!(Some(&policy.fingerprint), blocked.fingerprint.as_ref());
    assert!(users.sample.contains("no such user"), "{}", users.sample);
    assert_eq!(policy.sample, "550 5.7.1 Blocked");
    let first = scene.state(died[0]).await.finished_at;
    let last = scene.state(died[2]).await.finished_at;
    assert_eq!(
        (Some(users.first_seen), Some(users.last_seen)),
        (first, last)
    );

    let shop = scene.store.dead_groups(Some("shop")).await.expect("groups");
    assert_eq!(shop[..], groups[1..]);
    let nobody = scene.store.dead_groups(Some("nobody")).await;
    assert!(nobody.expect("groups").is_empty());
}

pub async fn dead_letters_without_an_error_go_by_their_reason(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for key in ["a", "b"] {
        let email = an_email(key).expires_at(scene.now() + HALF);
        scene.accept_unticketed(email).await;
    }
    scene.advance(HOUR).await;
    assert_eq!(scene.claim(ALL).await.len(), 2);
    let groups = scene.store.dead_groups(None).await.expect("groups");
    assert_eq!(groups.len(), 1);
    assert_eq!(
        (&groups[0].fingerprint[..], groups[0].count),
        ("Expired", 2)
    );
    assert!(!groups[0].sample.is_empty());
}
