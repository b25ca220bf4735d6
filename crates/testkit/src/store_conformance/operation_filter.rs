//! Which dead letters an operation is over.

use posthaste_core::email::EmailId;
use posthaste_core::operation::{BulkAction, DeadFilter};
use posthaste_core::port::Action;
use posthaste_core::status::{DeadReason, Status};

use super::operation::new;
use super::scene::{ALL, HALF, HOUR, Scene};
use super::{StoreFixture, same_ids};
use crate::{an_email, dead_of, sent};

pub async fn filters_choose_the_same_for_counting_and_for_acting(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let full = dead_of(DeadReason::HardBounce, "552 5.2.2 Mailbox full");
    let blocked = dead_of(DeadReason::PolicyBlocked, "550 5.7.1 Blocked");
    let email = |key: &str| an_email(key).to(["ann@example.org"]);
    let a = scene
        .ended(email("a").template("welcome"), full.clone())
        .await;
    let b = scene
        .ended(email("b").subject("Your invoice"), blocked)
        .await;
    let expired = scene
        .accept_unticketed(an_email("c").owner("shop").expires_at(scene.now() + HALF))
        .await;
    scene.advance(HOUR).await;
    scene.claim(ALL).await;
    let since = scene.now();
    let d = scene.ended(an_email("d"), full.clone()).await;
    scene.ended(an_email("e"), sent()).await;
    let only = DeadFilter::default;
    let cases = [
        (only(), vec![a, b, expired, d]),
        (
            DeadFilter {
                fingerprint: full.fingerprint,
                ..only()
            },
            vec![a, d],
        ),
        (
            DeadFilter {
                fingerprint: Some("Expired".into()),
                ..only()
            },
            vec![expired],
        ),
        (
            DeadFilter {
                fingerprint: Some("nothing".into()),
                ..only()
            },
            vec![],
        ),
        (
            DeadFilter {
                template: Some("welcome".into()),
                ..only()
            },
            vec![a],
        ),
        (
            DeadFilter {
                to: Some("Ann@example.org".into()),
                ..only()
            },
            vec![a, b],
        ),
        (
            DeadFilter {
                q: Some("your inv".into()),
                ..only()
            },
            vec![b],
        ),
        (
            DeadFilter {
                q: Some(b.to_string()),
                ..only()
            },
            vec![b],
        ),
        (
            DeadFilter {
                since: Some(since),
                ..only()
            },
            vec![d],
        ),
        (
            DeadFilter {
                ids: vec![a, d, EmailId::generate()],
                ..only()
            },
            vec![a, d],
        ),
        (
            DeadFilter {
                q: Some("a\0b".into()),
                ..only()
            },
            vec![],
        ),
    ];
    for (filter, expected) in cases {
        let count = scene.store.count_dead(&filter, None).await.expect("count");
        assert_eq!(count, expected.len() as u64, "{filter:?}");
        same_ids(scene.list(filter.emails(None)).await, expected.clone());
        let made = scene.make(new(BulkAction::Discard, filter, None)).await;
        assert_eq!(made.total, count);
        assert_eq!(made.status.is_over(), expected.is_empty());
        while scene.step(ALL).await.is_some() {}
        assert_eq!(
            scene.count(&expected, Status::Discarded).await,
            expected.len()
        );
        for id in expected {
            scene.act(id, Action::Restore).await;
        }
    }
}
