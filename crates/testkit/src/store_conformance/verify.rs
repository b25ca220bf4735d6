//! The checker itself. What it finds in a tampered database is tested per backend.

use posthaste_core::email::EmailId;

use super::StoreFixture;
use super::scene::{HALF, LEASE, Scene};
use crate::{an_email, sent};

pub async fn an_id_that_a_client_saw_accepted_is_missed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let kept = scene.ended(an_email("a"), sent()).await;
    let missing = EmailId::generate();
    let verify = async |ledger: &[EmailId]| {
        let violations = scene.store.verify(ledger).await;
        violations.expect("verify")
    };
    assert_eq!(verify(&[kept]).await, []);
    let violations = verify(&[kept, missing]).await;
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].invariant, "I2");
    assert!(violations[0].detail.contains(&missing.to_string()));
}

pub async fn a_lease_that_nobody_released_is_reported(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.begin(id).await;
    scene.advance(LEASE + HALF).await;
    let violations = scene.store.verify(&[]).await.expect("verify");
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].invariant, "I5");
    assert!(violations[0].detail.contains(&id.to_string()));
    scene.rescue().await;
}

pub async fn the_store_answers_when_it_is_well(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.store.check().await.expect("a store that is well");
}
