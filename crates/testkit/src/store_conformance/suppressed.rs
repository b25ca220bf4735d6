//! Senders are told who gets nothing any more.

use posthaste_core::port::{Opened, Opener, Pick, Started};
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::Suppression;

use super::StoreFixture;
use super::scene::{ALL, HOUR, LEASE, Scene, WORKER, operator};
use crate::{EmailBuilder, an_email, budgets, parking, transient};

const TO: [&str; 3] = ["bob@example.org", "Carl@Example.ORG", "dora@example.org"];

fn to_three(key: &str) -> EmailBuilder {
    an_email(key).owner("shop").to(TO)
}

async fn suppress<F: StoreFixture>(
    scene: &Scene<'_, F>,
    owner: &str,
    address: &str,
    reason: DeadReason,
) {
    let suppression = Suppression {
        owner: owner.into(),
        address: address.into(),
        reason,
        detail: None,
        email_id: None,
        created_at: scene.now(),
        created_by: operator().name,
    };
    let suppressed = scene.store.suppress(vec![suppression], &operator()).await;
    suppressed.expect("suppress");
}

async fn opened<F: StoreFixture>(scene: &Scene<'_, F>, email: EmailBuilder) -> Started {
    let opened = scene
        .store
        .accept_begun(vec![email.build()], Opener::Caller, WORKER, LEASE)
        .await;
    match opened.expect("accept").remove(0).expect("accept") {
        Opened::Started(started) => *started,
        other => panic!("not started: {other:?}"),
    }
}

pub async fn nobody_is_suppressed_where_the_list_is_empty(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    assert_eq!(scene.begin(id).await.suppressed, []);
    assert_eq!(opened(&scene, to_three("b")).await.suppressed, []);
}

pub async fn whoever_is_on_the_owners_list_is_told_by_place(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    suppress(
        &scene,
        "shop",
        "carl@example.org",
        DeadReason::SpamComplaint,
    )
    .await;
    suppress(&scene, "shop", "dora@example.org", DeadReason::Suppressed).await;
    suppress(&scene, "blog", "bob@example.org", DeadReason::HardBounce).await;
    let expected = [(1, DeadReason::SpamComplaint), (2, DeadReason::Suppressed)];
    // However its attempt begins.
    let id = scene.accept(to_three("a")).await;
    let started = scene.begin(id).await;
    assert_eq!(started.suppressed, expected);
    let failed = scene.finish(started.lease, transient(HOUR)).await;
    failed.expect("a lease that holds");
    scene.advance(HOUR).await;
    let begun = scene.begin_unticketed(ALL, scene.now()).await;
    assert_eq!(begun[0].suppressed, expected);
    let parked = vec![(
        begun[0].lease,
        parking("primary", std::time::Duration::ZERO),
    )];
    assert_eq!(scene.store.park(parked).await.expect("park"), [true]);
    let found = scene
        .store
        .begin_parked("primary", Pick::UpTo(ALL), WORKER, LEASE, &budgets())
        .await;
    assert_eq!(found.expect("begin parked").started[0].suppressed, expected);
    assert_eq!(opened(&scene, to_three("b")).await.suppressed, expected);
    // Another owner's emails go to the same addresses.
    let other = to_three("c").owner("blog");
    let expected = [(0, DeadReason::HardBounce)];
    assert_eq!(opened(&scene, other).await.suppressed, expected);
    let other = scene.accept(to_three("d").owner("nobody")).await;
    assert_eq!(scene.begin(other).await.suppressed, []);
}

pub async fn whoever_was_taken_off_the_list_gets_mail_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    suppress(&scene, "shop", "bob@example.org", DeadReason::HardBounce).await;
    let batch: Vec<_> = ["a", "b"].map(|key| to_three(key).build()).to_vec();
    let ids: Vec<_> = batch.iter().map(|email| email.id).collect();
    scene.store.accept(batch, true).await.expect("accept");
    let begun = scene.store.begin(ids, WORKER, LEASE).await.expect("begin");
    for begun in begun {
        let posthaste_core::port::Begun::Started(started) = begun else {
            panic!("{begun:?}")
        };
        assert_eq!(started.suppressed, [(0, DeadReason::HardBounce)]);
        scene.release(started.lease).await;
    }
    let taken_off = scene
        .store
        .unsuppress("shop", "bob@example.org", &operator())
        .await;
    assert!(taken_off.expect("unsuppress"));
    let again = scene.begin_unticketed(ALL, scene.now()).await;
    assert!(again.iter().all(|started| started.suppressed.is_empty()));
    assert_eq!(again.len(), 2);
}
