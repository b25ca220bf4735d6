//! Removing what is over for long enough.

use std::time::Duration;

use posthaste_core::decision::Conclusion;
use posthaste_core::port::{Action, AuditFilter, Captured, Pruned, Retention};
use posthaste_core::status::{DeadReason, Status};

use super::scene::{ALL, HOUR, Scene};
use super::{StoreFixture, assert_consistent, same_ids};
use crate::{an_email, dead, sent, transient, unknown_hold};

const DAY: Duration = Duration::from_secs(24 * 3600);
const RETENTION: Retention = Retention {
    attempts: None,
    content: None,
    sent: Duration::from_secs(10 * 24 * 3600),
    dead: Duration::from_secs(30 * 24 * 3600),
    captures: Duration::from_secs(3 * 24 * 3600),
    audit: Duration::from_secs(20 * 24 * 3600),
};

async fn prune<F: StoreFixture>(scene: &Scene<'_, F>, most: usize) -> Pruned {
    scene.store.prune(RETENTION, most).await.expect("prune")
}

pub async fn only_what_is_over_for_long_enough_is_removed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let withdrawn = scene.accept(an_email("cancelled")).await;
    scene.act(withdrawn, Action::Cancel).await;
    let refused = dead(DeadReason::HardBounce);
    let given_up = scene.ended(an_email("dead"), refused.clone()).await;
    let discarded = scene.ended(an_email("discarded"), refused).await;
    scene.act(discarded, Action::Discard).await;
    // None of these is over, however old.
    let pending = scene.accept(an_email("pending")).await;
    let later = an_email("later").send_at(scene.now() + 900 * DAY);
    let later = scene.accept(later).await;
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let unknown = scene.ended(an_email("unknown"), unknown_hold()).await;
    let alive = [pending, later, failed, unknown];

    scene.advance(9 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 0);
    scene.advance(2 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 2);
    let mut left = alive.to_vec();
    left.extend([given_up, discarded]);
    same_ids(scene.list(Default::default()).await, left);
    for id in [delivered, withdrawn] {
        assert!(scene.store.find(id).await.expect("find").is_none());
        assert!(scene.store.content(id).await.expect("content").is_none());
    }
    assert_consistent(fixture).await;

    scene.advance(500 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 2);
    same_ids(scene.list(Default::default()).await, alive);
    let statistics = scene.store.statistics().await.expect("statistics");
    assert_eq!((statistics.accepted, statistics.pruned), (8, 4));
    assert_eq!(prune(&scene, ALL).await, Pruned::default());
}

pub async fn age_is_counted_from_the_end(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.advance(100 * DAY).await;
    scene.attempt(id, sent()).await;
    scene.advance(9 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 0);
    scene.advance(2 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 1);
}

pub async fn no_more_are_removed_than_asked_for(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..5 {
        scene.ended(an_email(&format!("{n}")), sent()).await;
        scene.accept(an_email(&format!("pending {n}"))).await;
    }
    scene.advance(11 * DAY).await;
    for expected in [2, 2, 1, 0] {
        assert_eq!(prune(&scene, 2).await.emails, expected);
        assert_consistent(fixture).await;
    }
    scene.assert_counted(&[(Status::Pending, 5)]).await;
}

pub async fn a_removed_email_frees_its_key_and_its_attempts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = an_email("a");
    let id = first.clone().build().id;
    scene.ended(first, sent()).await;
    scene.advance(11 * DAY).await;
    assert_eq!(prune(&scene, ALL).await.emails, 1);
    let again = scene.accept(an_email("a").payload("other").id(id)).await;
    let found = scene.find(again).await;
    assert!(
        found.attempts.is_empty(),
        "they were those of the removed one"
    );
    // A sender that comes back from the dead finds nothing of its own.
    let stale = posthaste_core::port::Lease { id, token: 1 };
    assert!(scene.finish(stale, sent()).await.is_err());
}

pub async fn captures_and_audit_entries_have_their_own_age(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    scene.act(id, Action::Cancel).await;
    for _ in 0..2 {
        let captured = Captured {
            email_id: id,
            captured_at: scene.now(),
            from: "ann@example.com".into(),
            recipients: vec!["bob@example.org".into()],
            content: "x".into(),
        };
        scene.store.capture(captured).await.expect("capture");
        scene.advance(2 * DAY).await;
    }
    let pruned = prune(&scene, ALL).await;
    assert_eq!((pruned.captures, pruned.audit_entries), (1, 0));
    assert_eq!(scene.store.captures(ALL).await.expect("captures").len(), 1);
    scene.advance(20 * DAY).await;
    let pruned = prune(&scene, ALL).await;
    assert_eq!((pruned.captures, pruned.audit_entries), (1, 1));
    assert!(
        scene
            .store
            .audit(&AuditFilter::newest(ALL))
            .await
            .expect("audit")
            .is_empty()
    );
}

pub async fn compacted_statistics_add_up_to_the_same(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let keep = Retention {
        attempts: None,
        content: None,
        sent: 900 * DAY,
        dead: 900 * DAY,
        captures: 900 * DAY,
        audit: 900 * DAY,
    };
    let mut accepted = 0;
    for round in 0..8u32 {
        for n in 0..3 {
            let key = format!("{round} {n}");
            scene.ended(an_email(&key), sent()).await;
            scene.advance(Duration::from_secs(61 * 60 / 3)).await;
            accepted += 1;
        }
        let unclear = scene.uncertain(an_email(&format!("{round}"))).await;
        let settlements = vec![(unclear.lease.id, Conclusion::Hold)];
        scene.store.settle(settlements).await.expect("settle");
        accepted += 1;
        let before = scene.store.statistics().await.expect("statistics");
        scene.store.prune(keep, ALL).await.expect("prune");
        let after = scene.store.statistics().await.expect("statistics");
        assert_eq!(after, before, "round {round}");
        assert_eq!(after.accepted, accepted);
        assert_consistent(fixture).await;
        // Over the ages at which minutes become hours and hours become one number.
        scene.advance(if round < 4 { DAY } else { 14 * DAY }).await;
    }
    scene
        .assert_counted(&[(Status::Sent, 24), (Status::Unknown, 8)])
        .await;
}
