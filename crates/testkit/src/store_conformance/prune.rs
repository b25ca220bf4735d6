//! Removing what is over for long enough.

use std::time::Duration;

use posthaste_core::decision::Conclusion;
use posthaste_core::operation::{BulkAction, DeadFilter, NewOperation, OperationId};
use posthaste_core::port::{Acted, Action, Actor, AuditFilter, Captured, Pruned, Retention, Told};
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
        // Over the ages at which minutes become quarters and quarters become one number.
        scene.advance(if round < 4 { DAY } else { 14 * DAY }).await;
    }
    scene
        .assert_counted(&[(Status::Sent, 24), (Status::Unknown, 8)])
        .await;
}

pub async fn dead_letters_that_are_removed_leave_one_audit_entry(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let refused = dead(DeadReason::HardBounce);
    for key in ["a", "b", "c"] {
        scene.ended(an_email(key), refused.clone()).await;
    }
    let discarded = scene.ended(an_email("d"), refused).await;
    scene.act(discarded, Action::Discard).await;
    scene.ended(an_email("sent"), sent()).await;
    scene.advance(31 * DAY).await;
    let keep = Retention {
        audit: 900 * DAY,
        ..RETENTION
    };
    for (most, removed) in [(3, 3), (ALL, 2), (ALL, 0)] {
        let pruned = scene.store.prune(keep, most).await.expect("prune");
        assert_eq!(pruned.emails, removed);
    }
    let entries = scene.store.audit(&AuditFilter::newest(ALL)).await;
    let purges: Vec<_> = entries
        .expect("audit")
        .into_iter()
        .filter(|entry| entry.actor == "retention")
        .collect();
    let counts: Vec<_> = purges.iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [Some(1), Some(3)], "one for each batch");
    assert_eq!(purges[0].action, "purge");
    let filter = "dead and discarded, over for more than 30d";
    assert_eq!(purges[0].filter.as_deref(), Some(filter));
}

const SHORT: Retention = Retention {
    attempts: Some(Duration::from_secs(24 * 3600)),
    content: Some(Duration::from_secs(2 * 24 * 3600)),
    ..RETENTION
};

async fn shorten<F: StoreFixture>(scene: &Scene<'_, F>, most: usize) -> (u64, u64) {
    let pruned = scene.store.prune(SHORT, most).await.expect("prune");
    (pruned.attempts, pruned.contents)
}

pub async fn attempts_have_their_own_age(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let withdrawn = scene.ended(an_email("cancelled"), transient(HOUR)).await;
    scene.act(withdrawn, Action::Cancel).await;
    let given_up = scene
        .ended(an_email("dead"), dead(DeadReason::HardBounce))
        .await;
    assert_eq!(shorten(&scene, ALL).await, (0, 0));
    scene.advance(DAY + HOUR).await;
    assert_eq!(shorten(&scene, 1).await, (1, 0), "no more than asked for");
    assert_consistent(fixture).await;
    assert_eq!(shorten(&scene, ALL).await, (1, 0));
    assert_eq!(shorten(&scene, ALL).await, (0, 0), "each once");
    for id in [delivered, withdrawn] {
        assert!(scene.find(id).await.attempts.is_empty());
    }
    let left = scene.find(given_up).await.attempts;
    assert_eq!(left.len(), 1, "an operator needs them to decide");
}

pub async fn content_has_its_own_age(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let given_up = scene
        .ended(an_email("dead"), dead(DeadReason::HardBounce))
        .await;
    let erased = scene.ended(an_email("erased"), sent()).await;
    scene.act(erased, Action::Erase).await;
    scene.advance(DAY + HOUR).await;
    assert_eq!(shorten(&scene, ALL).await.1, 0);
    scene.advance(DAY).await;
    assert_eq!(shorten(&scene, ALL).await.1, 2, "one was erased by hand");
    assert_eq!(shorten(&scene, ALL).await.1, 0, "each once");
    for id in [delivered, given_up] {
        let found = scene.find(id).await;
        assert!(found.erased_at.is_some());
        assert_eq!(found.summary.subject, "");
        assert_eq!(found.state.last_error, None);
        let content = scene.store.content(id).await.expect("content");
        assert!(content.is_none_or(|content| content.is_empty()));
    }
    assert_eq!(scene.status(given_up).await, Status::Dead);
    assert_eq!(scene.act(given_up, Action::Retry).await, Acted::Erased);
}

pub async fn what_took_long_to_end_loses_its_attempts_later(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let slow = scene.accept(an_email("slow")).await;
    scene.advance(5 * DAY).await;
    scene.ended(an_email("quick"), sent()).await;
    scene.advance(DAY + HOUR).await;
    assert_eq!(shorten(&scene, ALL).await.0, 1, "the search has passed it");
    scene.attempt(slow, sent()).await;
    assert_eq!(shorten(&scene, ALL).await.0, 0, "it is not old enough");
    scene.advance(DAY + HOUR).await;
    assert_eq!(shorten(&scene, ALL).await.0, 1);
    assert!(scene.find(slow).await.attempts.is_empty());
}

pub async fn what_can_still_be_sent_keeps_everything(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let unknown = scene.ended(an_email("unknown"), unknown_hold()).await;
    let pending = scene.accept(an_email("pending")).await;
    scene.advance(500 * DAY).await;
    assert_eq!(shorten(&scene, ALL).await, (0, 0));
    for id in [failed, unknown] {
        assert_eq!(scene.find(id).await.attempts.len(), 1);
    }
    for id in [failed, unknown, pending] {
        let content = scene.store.content(id).await.expect("content");
        assert!(content.is_some_and(|content| !content.is_empty()));
    }
}

pub async fn operations_go_with_the_audit_log(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let new = NewOperation {
        id: OperationId::generate(),
        action: BulkAction::Discard,
        filter: DeadFilter::default(),
        rate_per_second: None,
    };
    let actor = Actor {
        name: "cli:root".into(),
        owner: None,
    };
    let made = scene.store.create_operation(new, &actor).await;
    let id = made.expect("an operation").id;
    while let Some(step) = scene.store.advance_operation(ALL).await.expect("a step") {
        assert_eq!(step.operation.id, id);
    }
    scene.advance(19 * DAY).await;
    prune(&scene, ALL).await;
    let kept = scene.store.operation(id, None).await.expect("operation");
    assert!(kept.is_some());
    scene.advance(2 * DAY).await;
    prune(&scene, ALL).await;
    let kept = scene.store.operation(id, None).await.expect("operation");
    assert_eq!(kept, None);
}

pub async fn what_a_channel_that_is_gone_had_to_tell_is_removed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let refused = dead(DeadReason::HardBounce);
    scene.ended(an_email("a"), refused.clone()).await;
    let names = ["gone".to_owned(), "slack".to_owned()];
    scene
        .store
        .gather_deaths(&names, ALL)
        .await
        .expect("gather");
    let waiting = async || -> Vec<u64> {
        let channels = scene.store.alert_channels().await.expect("channels");
        channels.iter().map(|channel| channel.waiting).collect()
    };
    scene.advance(29 * DAY).await;
    // One still tries, however long it takes; of the other nothing was heard.
    let taken = scene.store.take_digest("slack", HOUR, HOUR, HOUR).await;
    let digest = taken.expect("take").expect("a digest");
    let failed = Told::Failed {
        rest: HOUR,
        error: "away".into(),
    };
    let settled = scene.store.settle_digest("slack", &digest, failed).await;
    settled.expect("settle");
    prune(&scene, ALL).await;
    assert_eq!(waiting().await, [1, 1]);
    scene.advance(2 * DAY).await;
    prune(&scene, ALL).await;
    assert_eq!(waiting().await, [0, 1]);
}
