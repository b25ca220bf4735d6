//! The list of addresses that get nothing any more.

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, AuditFilter, SuppressionFilter};
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::Suppression;

use super::StoreFixture;
use super::scene::{ALL, Scene, operator, together};

/// An entry by hand.
pub(super) fn an_entry(address: &str) -> Suppression {
    Suppression {
        owner: "default".into(),
        address: address.into(),
        reason: DeadReason::Suppressed,
        detail: None,
        email_id: None,
        // Whatever the caller's clock says.
        created_at: Timestamp::UNIX_EPOCH,
        created_by: operator().name,
    }
}

fn entry_for(reason: DeadReason) -> Suppression {
    Suppression {
        reason,
        detail: Some(format!("{reason} it was")),
        email_id: Some(EmailId::generate()),
        created_by: "provider:primary".into(),
        ..an_entry("ann@example.org")
    }
}

async fn suppress<F: StoreFixture>(scene: &Scene<'_, F>, entries: Vec<Suppression>) -> Vec<bool> {
    let put = scene.store.suppress(entries, &operator()).await;
    put.expect("suppress")
}

async fn unsuppress<F: StoreFixture>(scene: &Scene<'_, F>, owner: &str, address: &str) -> bool {
    let removed = scene.store.unsuppress(owner, address, &operator()).await;
    removed.expect("unsuppress")
}

async fn list<F: StoreFixture>(
    scene: &Scene<'_, F>,
    filter: SuppressionFilter,
) -> Vec<Suppression> {
    let filter = SuppressionFilter {
        limit: if filter.limit == 0 { ALL } else { filter.limit },
        ..filter
    };
    scene.store.suppressions(&filter).await.expect("list")
}

async fn all<F: StoreFixture>(scene: &Scene<'_, F>) -> Vec<Suppression> {
    list(scene, SuppressionFilter::default()).await
}

fn addresses(entries: &[Suppression]) -> Vec<&str> {
    entries.iter().map(|entry| &entry.address[..]).collect()
}

pub async fn an_address_is_put_on_the_list_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let entry = Suppression {
        detail: Some("asked on the phone".into()),
        ..an_entry("Ann@Example.org")
    };
    let (put, moment) = scene.timed(suppress(&scene, vec![entry.clone()])).await;
    assert_eq!(put, [true]);
    let listed = all(&scene).await;
    moment.is(Some(listed[0].created_at));
    let expected = Suppression {
        address: "ann@example.org".into(),
        created_at: listed[0].created_at,
        ..entry.clone()
    };
    assert_eq!(listed, [expected]);
    let batch = vec![
        an_entry("bob@example.org"),
        an_entry("ann@example.org"),
        an_entry("BOB@example.org"),
    ];
    let put = suppress(&scene, batch).await;
    assert_eq!(put, [true, false, false]);
    assert_eq!(all(&scene).await[..1], listed, "it stays as it is");
    let audit = scene.store.audit(&AuditFilter::newest(ALL)).await;
    let mut audit: Vec<_> = audit
        .expect("audit")
        .into_iter()
        .map(|entry| (entry.actor, entry.action, entry.subject, entry.result))
        .collect();
    audit.sort();
    let entry = |subject: &str, result: &str| {
        ["cli:root", "suppress", subject, result]
            .map(str::to_owned)
            .into()
    };
    assert_eq!(
        audit,
        [
            entry("ann@example.org", "Suppressed for default"),
            entry("ann@example.org", "unchanged for default"),
            entry("bob@example.org", "Suppressed for default"),
            entry("bob@example.org", "unchanged for default"),
        ]
    );
}

pub async fn a_graver_reason_takes_the_place_of_a_lesser_one(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let reasons = [
        DeadReason::Suppressed,
        DeadReason::HardBounce,
        DeadReason::SpamComplaint,
    ];
    for (n, first) in reasons.into_iter().enumerate() {
        for (m, second) in reasons.into_iter().enumerate() {
            let first = entry_for(first);
            let second = entry_for(second);
            assert_eq!(suppress(&scene, vec![first.clone()]).await, [true]);
            let since = all(&scene).await[0].created_at;
            assert_eq!(suppress(&scene, vec![second.clone()]).await, [false]);
            let graver = if m > n { second } else { first };
            let expected = Suppression {
                created_at: since,
                ..graver
            };
            assert_eq!(all(&scene).await, [expected]);
            assert!(unsuppress(&scene, "default", "ann@example.org").await);
        }
    }
}

pub async fn an_address_is_taken_off_the_list(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    suppress(&scene, vec![an_entry("ann@example.org")]).await;
    for (owner, address) in [
        ("default", "bob@example.org"),
        ("billing", "ann@example.org"),
        ("default", "ann@example.org\0"),
    ] {
        assert!(!unsuppress(&scene, owner, address).await);
    }
    assert!(unsuppress(&scene, "default", "ANN@example.org").await);
    assert!(!unsuppress(&scene, "default", "ann@example.org").await);
    assert_eq!(all(&scene).await, []);
    let filter = AuditFilter {
        action: Some("unsuppress".into()),
        ..AuditFilter::newest(ALL)
    };
    let audit = scene.store.audit(&filter).await.expect("audit");
    let [entry] = &audit[..] else {
        panic!("{audit:?}");
    };
    assert_eq!(entry.subject, "ann@example.org");
    assert_eq!(entry.result, "removed for default");
}

pub async fn the_list_has_pages_without_gaps_and_repeats(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut entries = Vec::new();
    for n in 0..7 {
        for owner in ["billing", "default", "shop"] {
            entries.push(Suppression {
                owner: owner.into(),
                ..an_entry(&format!("ann{}-{}@example.org", n % 3, n))
            });
        }
    }
    suppress(&scene, entries).await;
    let everything = all(&scene).await;
    assert_eq!(everything.len(), 21);
    let keys = |entries: &[Suppression]| -> Vec<_> {
        entries
            .iter()
            .map(|entry| (entry.owner.clone(), entry.address.clone()))
            .collect()
    };
    let mut sorted = keys(&everything);
    sorted.sort();
    assert_eq!(keys(&everything), sorted, "by owner and address");
    let mut paged = Vec::new();
    loop {
        let filter = SuppressionFilter {
            limit: 4,
            after: keys(&paged).pop(),
            ..Default::default()
        };
        let page = list(&scene, filter).await;
        if page.is_empty() {
            break;
        }
        paged.extend(page);
        assert!(paged.len() <= everything.len(), "{paged:?}");
    }
    assert_eq!(paged, everything);
}

pub async fn addresses_are_found_by_their_beginning_and_by_domain(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let entries = [
        "ann@example.org",
        "anna@example.com",
        "bob_@example.org",
        "bobby@mail.example.org",
        "bob%x@example.com",
    ];
    suppress(&scene, entries.map(an_entry).to_vec()).await;
    for (q, expected) in [
        ("ann", &["ann@example.org", "anna@example.com"][..]),
        ("Ann@", &["ann@example.org"]),
        ("@Example.ORG", &["ann@example.org", "bob_@example.org"]),
        ("@example.com", &["anna@example.com", "bob%x@example.com"]),
        ("bob_", &["bob_@example.org"]),
        ("bob%", &["bob%x@example.com"]),
        ("example", &[]),
        ("@ample.org", &[]),
        ("a\0", &[]),
        (" bobby ", &["bobby@mail.example.org"]),
    ] {
        let filter = SuppressionFilter {
            q: Some(q.into()),
            ..Default::default()
        };
        let mut found = list(&scene, filter).await;
        found.sort_by(|a, b| a.address.cmp(&b.address));
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(addresses(&found), expected, "{q:?}");
    }
}

pub async fn lists_belong_to_their_owners(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let billing = Actor {
        name: "key:billing".into(),
        owner: Some("billing".into()),
    };
    let of = |owner: &str| Suppression {
        owner: owner.into(),
        ..an_entry("ann@example.org")
    };
    let entries = vec![of("billing"), of("default")];
    let put = scene.store.suppress(entries, &billing).await;
    assert_eq!(put.expect("suppress"), [true, false]);
    assert_eq!(all(&scene).await.len(), 1, "not on another's list");
    suppress(&scene, vec![of("default")]).await;
    for owner in ["billing", "default"] {
        let filter = SuppressionFilter {
            owner: Some(owner.into()),
            ..Default::default()
        };
        let listed = list(&scene, filter).await;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].owner, owner);
    }
    let removed = scene
        .store
        .unsuppress("default", "ann@example.org", &billing);
    assert!(!removed.await.expect("unsuppress"));
    assert_eq!(all(&scene).await.len(), 2);
}

pub async fn an_address_that_many_put_on_the_list_is_new_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let stores = [scene.store.clone(), fixture.another().await];
    let names = ["ann", "bob", "carl", "dora"];
    let put = together(8, |n| {
        let store = stores[n % 2].clone();
        // Everyone in another order.
        let entries = (0..4).map(|m| an_entry(&format!("{}@example.org", names[(n + m) % 4])));
        let entries: Vec<_> = entries.collect();
        async move {
            store
                .suppress(entries, &operator())
                .await
                .expect("suppress")
        }
    });
    let new = put.await.into_iter().flatten().filter(|new| *new).count();
    assert_eq!(new, 4);
    assert_eq!(all(&scene).await.len(), 4);
}
