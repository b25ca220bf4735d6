//! People who may use the dashboard, and their logins.

use posthaste_core::admin::{LastOperator, Role};
use posthaste_core::port::{AdminChanged, AuditFilter, Retention};

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, Scene, operator, together};

/// The hash of Ann's password.
const HASH: &str = "$argon2id$ann";

async fn with_ann<F: StoreFixture>(fixture: &F) -> Scene<'_, F> {
    let scene = Scene::new(fixture);
    let created = scene
        .store
        .create_admin("ann", Role::Operator, HASH, &operator())
        .await;
    created.expect("create").expect("a new admin");
    scene
}

/// Logs Ann in with this secret.
async fn log_in<F: StoreFixture>(scene: &Scene<'_, F>, secret: [u8; 32]) {
    let begun = scene.store.begin_session("ann", HASH, secret, HOUR).await;
    assert!(begun.expect("begin session"), "the password is right");
}

async fn is_logged_in<F: StoreFixture>(scene: &Scene<'_, F>, secret: [u8; 32]) -> bool {
    let session = scene.store.session(secret).await.expect("session");
    session.is_some()
}

async fn done_to<F: StoreFixture>(scene: &Scene<'_, F>, name: &str) -> Vec<(String, String)> {
    let filter = AuditFilter {
        subject: Some(name.to_owned()),
        ..AuditFilter::newest(ALL)
    };
    let entries = scene.store.audit(&filter).await.expect("audit");
    let done = entries.into_iter().rev();
    done.map(|entry| (entry.actor, entry.action)).collect()
}

pub async fn an_admin_is_found_by_name(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (store, root) = (&scene.store, operator());
    let created = store.create_admin("ann", Role::Viewer, HASH, &root);
    let (created, moment) = scene.timed(created).await;
    let ann = created.expect("create").expect("a new admin");
    assert_eq!((&ann.name[..], ann.role), ("ann", Role::Viewer));
    moment.is(Some(ann.created_at));
    let found = store.find_admin("ann").await.expect("find");
    assert_eq!(found, Some((ann, HASH.to_owned())));
    for stranger in ["Ann", "bob", "", "a\0nn"] {
        let found = store.find_admin(stranger).await.expect("find");
        assert_eq!(found, None, "{stranger:?}");
    }
}

pub async fn a_name_is_given_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let created = together(8, |n| {
        let store = scene.store.clone();
        async move {
            let hash = format!("hash {n}");
            let root = operator();
            let created = store.create_admin("ann", Role::Viewer, &hash, &root);
            (hash.clone(), created.await.expect("create"))
        }
    });
    let created = created.await;
    let winners: Vec<_> = created.iter().filter(|(_, ann)| ann.is_some()).collect();
    assert_eq!(winners.len(), 1);
    let found = scene.store.find_admin("ann").await.expect("find");
    let (_, hash) = found.expect("an admin");
    assert_eq!(hash, winners[0].0, "the first one's password");
    let done = done_to(&scene, "ann").await;
    assert_eq!(done, [("cli:root".into(), "create_admin".into())]);
}

pub async fn admins_are_listed_by_name(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for name in ["carl", "ann", "bob-2", "bob.1"] {
        let root = operator();
        let created = scene.store.create_admin(name, Role::Viewer, HASH, &root);
        created.await.expect("create");
    }
    let admins = scene.store.admins().await.expect("admins");
    let names: Vec<_> = admins.iter().map(|admin| &admin.name[..]).collect();
    assert_eq!(names, ["ann", "bob-2", "bob.1", "carl"]);
}

pub async fn a_login_lasts_for_its_time(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    let before = scene.now();
    let begun = scene.store.begin_session("ann", HASH, [1; 32], HOUR);
    assert!(begun.await.expect("begin session"));
    let session = scene.store.session([1; 32]).await.expect("session");
    let session = session.expect("a session");
    assert_eq!(session.admin.name, "ann");
    assert!(session.created_at >= before);
    assert_eq!(session.expires_at, session.created_at + HOUR);
    assert!(!is_logged_in(&scene, [2; 32]).await, "another secret");
    scene.advance(HALF).await;
    assert!(is_logged_in(&scene, [1; 32]).await);
    scene.advance(HALF).await;
    assert!(!is_logged_in(&scene, [1; 32]).await, "it has run out");
}

pub async fn a_login_needs_the_password_that_is_in_force(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    for (name, hash) in [("ann", "another"), ("bob", HASH), ("a\0nn", HASH)] {
        let begun = scene.store.begin_session(name, hash, [1; 32], HOUR).await;
        assert!(!begun.expect("begin session"), "{name:?} {hash}");
    }
    assert!(!is_logged_in(&scene, [1; 32]).await);
    let done = done_to(&scene, "ann").await;
    assert_eq!(done.len(), 1, "no login: {done:?}");
}

pub async fn logging_out_ends_one_session(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    log_in(&scene, [1; 32]).await;
    log_in(&scene, [2; 32]).await;
    for _ in 0..2 {
        scene.store.end_session([1; 32]).await.expect("end session");
    }
    assert!(!is_logged_in(&scene, [1; 32]).await);
    assert!(is_logged_in(&scene, [2; 32]).await);
    let done = done_to(&scene, "ann").await;
    let by_ann = |action: &str| ("admin:ann".to_owned(), action.to_owned());
    assert_eq!(
        done[1..],
        [by_ann("login"), by_ann("login"), by_ann("logout")]
    );
}

pub async fn another_password_ends_all_sessions(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    log_in(&scene, [1; 32]).await;
    let (store, root) = (&scene.store, operator());
    let changed = store.change_password("ann", "new hash", &root).await;
    assert!(changed.expect("change password"));
    assert!(!is_logged_in(&scene, [1; 32]).await);
    let found = store.find_admin("ann").await.expect("find");
    assert_eq!(found.expect("an admin").1, "new hash");
    let nobody = store.change_password("bob", "new hash", &root).await;
    assert!(!nobody.expect("change password"));
    assert_eq!(
        done_to(&scene, "ann").await[2],
        ("cli:root".into(), "change_password".into())
    );
    assert_eq!(done_to(&scene, "bob").await, []);
}

pub async fn another_role_counts_for_sessions_at_once(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    log_in(&scene, [1; 32]).await;
    let (store, root) = (&scene.store, operator());
    let changed = store.change_role("ann", Role::Viewer, LastOperator::MayGo, &root);
    assert_eq!(changed.await.expect("change role"), AdminChanged::Done);
    let session = store.session([1; 32]).await.expect("session");
    assert_eq!(session.expect("a session").admin.role, Role::Viewer);
    let nobody = store.change_role("bob", Role::Viewer, LastOperator::Stays, &root);
    assert_eq!(nobody.await.expect("change role"), AdminChanged::NotFound);
    assert_eq!(
        done_to(&scene, "ann").await[2],
        ("cli:root".into(), "change_role".into())
    );
}

pub async fn a_removed_admin_is_logged_out(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    log_in(&scene, [1; 32]).await;
    let (store, root) = (&scene.store, operator());
    let removed = store.remove_admin("ann", LastOperator::MayGo, &root);
    assert_eq!(removed.await.expect("remove"), AdminChanged::Done);
    assert!(!is_logged_in(&scene, [1; 32]).await);
    assert_eq!(store.find_admin("ann").await.expect("find"), None);
    let nobody = store.remove_admin("ann", LastOperator::Stays, &root);
    assert_eq!(nobody.await.expect("remove"), AdminChanged::NotFound);
    let done = done_to(&scene, "ann").await;
    assert_eq!(done.len(), 3, "created, logged in, removed once: {done:?}");
}

pub async fn the_last_operator_stays(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    let (store, root) = (&scene.store, operator());
    let created = store.create_admin("vera", Role::Viewer, HASH, &root);
    created.await.expect("create");
    let stays = LastOperator::Stays;
    let demoted = store.change_role("ann", Role::Viewer, stays, &root).await;
    assert_eq!(demoted.expect("change role"), AdminChanged::LastOperator);
    let removed = store.remove_admin("ann", stays, &root).await;
    assert_eq!(removed.expect("remove"), AdminChanged::LastOperator);
    let ann = store.find_admin("ann").await.expect("find");
    assert_eq!(ann.expect("ann").0.role, Role::Operator);
    assert_eq!(done_to(&scene, "ann").await.len(), 1, "only made");
    let same = store.change_role("ann", Role::Operator, stays, &root).await;
    assert_eq!(same.expect("change role"), AdminChanged::Done);
    let viewer = store.remove_admin("vera", stays, &root).await;
    assert_eq!(viewer.expect("remove"), AdminChanged::Done);
}

pub async fn of_operators_who_leave_at_once_one_stays(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let names = ["ann", "bob", "carl", "dora"];
    for name in names {
        let root = operator();
        let created = scene.store.create_admin(name, Role::Operator, HASH, &root);
        created.await.expect("create");
    }
    let changed = together(names.len(), |n| {
        let store = scene.store.clone();
        async move {
            let (stays, root) = (LastOperator::Stays, operator());
            let changed = if n % 2 == 0 {
                store
                    .change_role(names[n], Role::Viewer, stays, &root)
                    .await
            } else {
                store.remove_admin(names[n], stays, &root).await
            };
            changed.expect("change")
        }
    });
    let changed = changed.await;
    let stayed = changed
        .iter()
        .filter(|one| **one == AdminChanged::LastOperator);
    assert_eq!(stayed.count(), 1, "{changed:?}");
    let admins = scene.store.admins().await.expect("admins");
    let operators = admins.iter().filter(|one| one.role == Role::Operator);
    assert_eq!(operators.count(), 1);
}

pub async fn sessions_that_ran_out_are_removed(fixture: &impl StoreFixture) {
    let scene = with_ann(fixture).await;
    log_in(&scene, [1; 32]).await;
    scene.advance(HALF).await;
    log_in(&scene, [2; 32]).await;
    scene.advance(HALF).await;
    let long = HOUR * 1000;
    let retention = Retention {
        sent: long,
        dead: long,
        attempts: None,
        content: None,
        captures: long,
        audit: long,
    };
    scene.store.prune(retention, ALL).await.expect("prune");
    assert!(is_logged_in(&scene, [2; 32]).await, "still good");
    // A secret is used once, unless its session is gone.
    log_in(&scene, [1; 32]).await;
}
