//! API keys.

use posthaste_core::port::ApiKey;

use super::StoreFixture;
use super::scene::{ALL, HOUR, Scene, operator};

fn a_key<F: StoreFixture>(scene: &Scene<'_, F>, id: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        name: format!("key {id}"),
        owner: "billing".into(),
        scopes: vec!["send".into(), "read".into()],
        from_addresses: vec!["ann@example.com".into()],
        created_at: scene.now(),
        revoked_at: None,
    }
}

pub async fn a_key_is_found_by_the_hash_of_its_secret(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let key = a_key(&scene, "k1");
    let root = operator();
    let created = scene.store.create_key(key.clone(), [1; 32], &root);
    let (created, moment) = scene.timed(created).await;
    created.expect("create key");
    let found = scene.store.find_key([1; 32]).await.expect("find key");
    let found = found.expect("a key that is there");
    moment.is(Some(found.created_at));
    let expected = ApiKey {
        created_at: found.created_at,
        ..key
    };
    assert_eq!(found, expected);
    let other = scene.store.find_key([2; 32]).await.expect("find key");
    assert_eq!(other, None);
}

pub async fn a_revoked_key_opens_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (store, root) = (&scene.store, operator());
    for (n, id) in [(1, "k1"), (2, "k2")] {
        let created = store.create_key(a_key(&scene, id), [n; 32], &root).await;
        created.expect("create key");
        scene.advance(HOUR).await;
    }
    let (revoked, moment) = scene.timed(store.revoke_key("k1", &root)).await;
    assert!(revoked.expect("revoke"));
    assert_eq!(store.find_key([1; 32]).await.expect("find key"), None);
    assert!(store.find_key([2; 32]).await.expect("find key").is_some());
    scene.advance(HOUR).await;
    assert!(store.revoke_key("k1", &root).await.expect("revoke"));
    assert!(!store.revoke_key("k9", &root).await.expect("revoke"));

    let keys = store.keys().await.expect("keys");
    let ids: Vec<_> = keys.iter().map(|key| &key.id[..]).collect();
    assert_eq!(ids, ["k1", "k2"], "oldest first");
    moment.is(keys[0].revoked_at);
    assert_eq!(keys[1].revoked_at, None);
    let audit = store
        .audit(&posthaste_core::port::AuditFilter::newest(ALL))
        .await
        .expect("audit");
    let done: Vec<_> = audit
        .iter()
        .map(|entry| (&entry.action[..], &entry.subject[..]))
        .collect();
    assert!(done.contains(&("revoke_key", "k1")), "{done:?}");
    assert!(done.contains(&("create_key", "k2")), "{done:?}");
    assert!(!done.contains(&("revoke_key", "k9")), "{done:?}");
}

pub async fn a_secret_or_an_id_is_used_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let create = async |id: &str, n: u8| {
        let key = a_key(&scene, id);
        scene.store.create_key(key, [n; 32], &operator()).await
    };
    create("k1", 1).await.expect("create key");
    assert!(create("k1", 2).await.is_err());
    assert!(create("k2", 1).await.is_err());
    create("k2", 2).await.expect("create key");
    assert_eq!(scene.store.keys().await.expect("keys").len(), 2);
    let audit = scene
        .store
        .audit(&posthaste_core::port::AuditFilter::newest(ALL))
        .await
        .expect("audit");
    assert_eq!(audit.len(), 2, "what failed was not done");
}
