//! Operations over many dead letters.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    BulkAction, DeadFilter, NewOperation, Operation, OperationChange, OperationId, OperationStatus,
};
use posthaste_core::port::{Action, Actor, AuditFilter, OperationChanged, SharedStore};
use posthaste_core::status::{DeadReason, Status};

use super::scene::{ALL, HALF, HOUR, Scene, operator, together};
use super::{StoreFixture, same_ids};
use crate::{an_email, dead, sent};

/// An operation that is about to be made.
pub(super) fn new(action: BulkAction, filter: DeadFilter, rate: Option<u32>) -> NewOperation {
    NewOperation {
        id: OperationId::generate(),
        action,
        filter,
        rate_per_second: rate,
    }
}

/// A retry of everything, as fast as it goes.
fn retry_all() -> NewOperation {
    new(BulkAction::Retry, DeadFilter::default(), None)
}

impl<F: StoreFixture> Scene<'_, F> {
    /// New emails that died at once.
    pub(super) async fn died(&self, count: usize) -> Vec<EmailId> {
        let mut ids = Vec::new();
        for n in 0..count {
            let email = an_email(&format!("dead {n}"));
            ids.push(self.ended(email, dead(DeadReason::HardBounce)).await);
        }
        ids
    }

    pub(super) async fn make(&self, new: NewOperation) -> Operation {
        let made = self.store.create_operation(new, &operator()).await;
        made.expect("create")
    }

    /// How many emails a step treated or skipped; `None` if none was due.
    pub(super) async fn step(&self, most: usize) -> Option<usize> {
        let step = self.store.advance_operation(most).await.expect("advance");
        step.map(|step| step.treated)
    }

    pub(super) async fn operation(&self, id: OperationId) -> Operation {
        let found = self.store.operation(id, None).await.expect("operation");
        found.expect("an operation that is there")
    }

    pub(super) async fn change(
        &self,
        id: OperationId,
        change: OperationChange,
    ) -> OperationChanged {
        let changed = self.store.change_operation(id, change, &operator()).await;
        changed.expect("change")
    }

    /// How many of these emails are in this state.
    pub(super) async fn count(&self, ids: &[EmailId], status: Status) -> usize {
        let mut count = 0;
        for id in ids {
            count += usize::from(self.status(*id).await == status);
        }
        count
    }
}

fn numbers(operation: &Operation) -> (u64, u64, u64, u64) {
    let remaining = operation.remaining();
    (
        operation.total,
        operation.done,
        operation.skipped,
        remaining,
    )
}

pub async fn an_operation_treats_what_was_dead_when_it_was_made(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let before = scene.died(5).await;
    let made = scene.make(retry_all()).await;
    assert_eq!(made.status, OperationStatus::Running);
    assert_eq!(numbers(&made), (5, 0, 0, 5));
    let later = scene
        .ended(an_email("later"), dead(DeadReason::HardBounce))
        .await;
    assert_eq!(scene.step(3).await, Some(3));
    assert_eq!(numbers(&scene.operation(made.id).await), (5, 3, 0, 2));
    assert_eq!(scene.step(3).await, Some(2));
    assert_eq!(scene.step(3).await, None);
    let over = scene.operation(made.id).await;
    assert_eq!(over.status, OperationStatus::Done);
    assert_eq!(numbers(&over), (5, 5, 0, 0));
    assert!(over.finished_at.is_some());
    assert_eq!(scene.count(&before, Status::Pending).await, 5);
    assert_eq!(scene.status(later).await, Status::Dead);
    assert_eq!(scene.store.next_step_due().await.expect("due"), None);
    // They wait without a ticket, with a fresh budget.
    same_ids(scene.schedule().await, before.clone());
    for id in before {
        scene.attempt(id, sent()).await;
    }
}

pub async fn dead_letters_are_discarded_by_the_many(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(4).await;
    let filter = DeadFilter {
        ids: ids[..3].to_vec(),
        ..DeadFilter::default()
    };
    assert_eq!(
        scene.store.count_dead(&filter, None).await.expect("count"),
        3
    );
    let made = scene
        .make(new(BulkAction::Discard, filter.clone(), None))
        .await;
    assert_eq!((made.action, &made.filter), (BulkAction::Discard, &filter));
    while scene.step(ALL).await.is_some() {}
    assert_eq!(scene.count(&ids[..3], Status::Discarded).await, 3);
    assert_eq!(scene.status(ids[3]).await, Status::Dead);
    scene.act(ids[0], Action::Restore).await;
    assert_eq!(scene.status(ids[0]).await, Status::Dead);
}

pub async fn what_dies_again_is_not_retried_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(3).await;
    let made = scene.make(retry_all()).await;
    let other = new(
        BulkAction::Retry,
        DeadFilter {
            ids: vec![ids[2]],
            ..Default::default()
        },
        None,
    );
    let other = scene.make(other).await;
    // The first step is for the one that is due first; both are done.
    while scene.step(1).await.is_some() {
        // What was retried leaves and dies anew, while the rest waits.
        for id in scene.schedule().await {
            scene.attempt(id, dead(DeadReason::HardBounce)).await;
        }
    }
    let (made, other) = (
        scene.operation(made.id).await,
        scene.operation(other.id).await,
    );
    assert_eq!(made.done + other.done, 3, "one death is treated once");
    assert_eq!(made.skipped + other.skipped, 1);
    for id in ids {
        assert_eq!(scene.status(id).await, Status::Dead);
        assert_eq!(scene.outcomes(id).await.len(), 2, "one retry for each");
    }
}

pub async fn what_is_not_dead_any_more_is_skipped(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(5).await;
    let made = scene.make(retry_all()).await;
    scene.act(ids[0], Action::Discard).await;
    scene.act(ids[1], Action::Retry).await;
    scene.act(ids[2], Action::Erase).await;
    // Taken back: it is the same death.
    scene.act(ids[3], Action::Discard).await;
    scene.act(ids[3], Action::Restore).await;
    while scene.step(ALL).await.is_some() {}
    let over = scene.operation(made.id).await;
    assert_eq!(numbers(&over), (5, 2, 3, 0));
    assert_eq!(scene.status(ids[0]).await, Status::Discarded);
    assert_eq!(
        scene.status(ids[2]).await,
        Status::Dead,
        "it has no content"
    );
    assert_eq!(scene.status(ids[3]).await, Status::Pending);
}

pub async fn a_pace_is_kept_and_not_caught_up_with(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.died(4).await;
    // One each second.
    let made = scene
        .make(new(BulkAction::Retry, DeadFilter::default(), Some(1)))
        .await;
    scene.advance(HOUR).await;
    let (step, moment) = scene.timed(scene.step(ALL)).await;
    assert_eq!(step, Some(1), "an hour of nothing is not caught up with");
    let next = scene.store.next_step_due().await.expect("due");
    moment.is_followed_by(next, Duration::from_secs(1));
    assert_eq!(scene.step(ALL).await, None, "its time has not come");
    scene.advance(HALF).await;
    assert_eq!(scene.step(ALL).await, Some(1));
    assert_eq!(scene.step(ALL).await, None);
    assert_eq!(scene.operation(made.id).await.remaining(), 2);
}

pub async fn a_pause_holds_until_it_is_resumed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(4).await;
    let made = scene.make(retry_all()).await;
    assert_eq!(scene.step(1).await, Some(1));
    let paused = scene.change(made.id, OperationChange::Pause).await;
    assert!(matches!(paused, OperationChanged::Done(o) if o.status == OperationStatus::Paused));
    scene.advance(HOUR).await;
    assert_eq!(scene.step(ALL).await, None);
    assert_eq!(scene.store.next_step_due().await.expect("due"), None);
    assert_eq!(scene.count(&ids, Status::Dead).await, 3);
    // After a restart it is still so, and whoever resumes it goes on where it was.
    let again = fixture.another().await;
    assert_eq!(again.advance_operation(ALL).await.expect("advance"), None);
    let change = OperationChange::Resume;
    let resumed = again.change_operation(made.id, change, &operator()).await;
    assert!(matches!(
        resumed.expect("change"),
        OperationChanged::Done(_)
    ));
    let step = again.advance_operation(ALL).await.expect("advance");
    assert_eq!(
        step.map(|step| numbers(&step.operation)),
        Some((4, 4, 0, 0))
    );
    assert_eq!(scene.count(&ids, Status::Pending).await, 4);
}

pub async fn a_cancelled_operation_leaves_the_rest_dead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(4).await;
    let made = scene.make(retry_all()).await;
    assert_eq!(scene.step(1).await, Some(1));
    let OperationChanged::Done(over) = scene.change(made.id, OperationChange::Cancel).await else {
        panic!("it can be cancelled");
    };
    assert_eq!(over.status, OperationStatus::Cancelled);
    assert!(over.finished_at.is_some());
    assert_eq!(scene.step(ALL).await, None);
    assert_eq!(scene.count(&ids, Status::Dead).await, 3);
    let again = scene.change(made.id, OperationChange::Cancel).await;
    assert_eq!(again, OperationChanged::Done(over), "twice is once");
    let resumed = scene.change(made.id, OperationChange::Resume).await;
    assert_eq!(
        resumed,
        OperationChanged::Refused(OperationStatus::Cancelled)
    );
    let unknown = scene
        .change(OperationId::generate(), OperationChange::Pause)
        .await;
    assert_eq!(unknown, OperationChanged::NotFound);
    // The rest can be part of another one.
    let rest = scene.make(retry_all()).await;
    assert_eq!(rest.total, 3);
    while scene.step(ALL).await.is_some() {}
    assert_eq!(scene.operation(rest.id).await.done, 3);
}

pub async fn several_instances_treat_each_email_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(60).await;
    let (first, second) = (scene.make(retry_all()).await, scene.make(retry_all()).await);
    let stores = [fixture.store(), fixture.another().await];
    let treated = together(6, |task| drain(stores[task % 2].clone())).await;
    assert_eq!(treated.iter().sum::<usize>(), 120);
    let (first, second) = (
        scene.operation(first.id).await,
        scene.operation(second.id).await,
    );
    assert_eq!(first.done + second.done, 60, "{first:?} {second:?}");
    assert_eq!(first.skipped + second.skipped, 60);
    assert_eq!(scene.count(&ids, Status::Pending).await, 60);
}

/// Takes steps of three until there is nothing more to do.
async fn drain(store: SharedStore) -> usize {
    let mut treated = 0;
    loop {
        match store.advance_operation(3).await.expect("advance") {
            Some(step) => treated += step.treated,
            // Someone else may be at it.
            None if store.next_step_due().await.expect("due").is_none() => return treated,
            None => tokio::task::yield_now().await,
        }
    }
}

pub async fn a_pause_amid_steps_is_the_last_word(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ids = scene.died(40).await;
    let made = scene.make(retry_all()).await;
    let stores = [fixture.store(), fixture.another().await];
    let stepping = together(4, |task| drain(stores[task % 2].clone()));
    let pausing = async {
        while scene.operation(made.id).await.done < 6 {}
        scene.change(made.id, OperationChange::Pause).await
    };
    let (_, paused) = tokio::join!(stepping, pausing);
    // If they were faster, there was nothing left to pause.
    let OperationChanged::Done(paused) = paused else {
        assert_eq!(paused, OperationChanged::Refused(OperationStatus::Done));
        return;
    };
    let later = scene.operation(made.id).await;
    assert_eq!(
        numbers(&later),
        numbers(&paused),
        "nothing more was treated"
    );
    let retried = scene.count(&ids, Status::Pending).await;
    assert_eq!(retried as u64, paused.done);
}

pub async fn an_operation_is_audited_when_it_is_made_and_when_it_is_over(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    scene.died(3).await;
    let filter = DeadFilter {
        since: Some("2020-01-01T00:00:00Z".parse().expect("a time")),
        ..DeadFilter::default()
    };
    let made = scene
        .make(new(BulkAction::Retry, filter.clone(), None))
        .await;
    scene.step(1).await;
    let log = async || {
        let log = scene.store.audit(&AuditFilter::newest(ALL)).await;
        log.expect("audit")
    };
    let entries = log().await;
    let [entry] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (&entry.actor[..], &entry.action[..]),
        ("cli:root", "operation_retry")
    );
    assert_eq!(
        (&entry.subject, entry.count),
        (&made.id.to_string(), Some(3))
    );
    let told = serde_json::from_str::<DeadFilter>(entry.filter.as_deref().expect("a filter"));
    assert_eq!(told.expect("a filter"), filter);
    while scene.step(1).await.is_some() {}
    let entries = log().await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    let end = &entries[0];
    assert_eq!(
        (&end.actor[..], &end.action[..]),
        ("cli:root", "operation_done")
    );
    assert_eq!((&end.subject, end.count), (&made.id.to_string(), Some(3)));
    assert_eq!(end.result, "3 retried, 0 skipped");
    // Changes are recorded if they changed something.
    scene.died_again().await;
    let other = scene.make(retry_all()).await;
    for change in [
        OperationChange::Pause,
        OperationChange::Pause,
        OperationChange::Cancel,
    ] {
        scene.change(other.id, change).await;
    }
    let entries = log().await;
    let result = "cancelled: 0 retried, 0 skipped, 3 left alone";
    assert_eq!(entries[0].result, result);
    let actions: Vec<_> = entries.into_iter().map(|entry| entry.action).collect();
    let expected = [
        "operation_cancel",
        "operation_pause",
        "operation_retry",
        "operation_done",
        "operation_retry",
    ];
    assert_eq!(actions, expected);
}

impl<F: StoreFixture> Scene<'_, F> {
    /// Everything that waits dies.
    async fn died_again(&self) {
        for id in self.schedule().await {
            self.attempt(id, dead(DeadReason::HardBounce)).await;
        }
    }
}

pub async fn owners_see_and_touch_their_own(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let gone = || dead(DeadReason::HardBounce);
    let shop = scene.ended(an_email("a").owner("shop"), gone()).await;
    let other = scene.ended(an_email("b").owner("other"), gone()).await;
    let keeper = Actor {
        name: "key:shop".into(),
        owner: Some("shop".into()),
    };
    let all = DeadFilter::default();
    let count = async |owner| scene.store.count_dead(&all, owner).await.expect("count");
    assert_eq!((count(None).await, count(Some("shop")).await), (2, 1));
    let made = scene.store.create_operation(retry_all(), &keeper).await;
    let made = made.expect("create");
    assert_eq!((made.total, &made.actor[..]), (1, "key:shop"));
    let whole = scene.make(retry_all()).await;
    let seen = async |owner| -> BTreeSet<OperationId> {
        let found = scene
            .store
            .operations(ALL, owner)
            .await
            .expect("operations");
        found.into_iter().map(|operation| operation.id).collect()
    };
    assert_eq!(seen(Some("shop")).await, BTreeSet::from([made.id]));
    assert_eq!(seen(None).await, BTreeSet::from([made.id, whole.id]));
    assert_eq!(seen(Some("other")).await, BTreeSet::new());
    let hidden = scene.store.operation(whole.id, Some("shop")).await;
    assert_eq!(hidden.expect("operation"), None);
    let change = OperationChange::Cancel;
    let refused = scene
        .store
        .change_operation(whole.id, change, &keeper)
        .await;
    assert_eq!(refused.expect("change"), OperationChanged::NotFound);
    scene.change(whole.id, change).await;
    while scene.step(ALL).await.is_some() {}
    assert_eq!(scene.status(shop).await, Status::Pending);
    assert_eq!(scene.status(other).await, Status::Dead);
}

pub async fn the_newest_operations_come_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(scene.make(retry_all()).await);
    }
    made.reverse();
    let listed = scene.store.operations(2, None).await.expect("operations");
    assert_eq!(listed, made[..2]);
    assert!(
        listed.iter().all(|one| one.status == OperationStatus::Done),
        "nothing is dead"
    );
}
