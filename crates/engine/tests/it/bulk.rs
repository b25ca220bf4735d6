//! Operations go on at their pace, and what they retry leaves at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    BulkAction, DeadFilter, NewOperation, OperationChange, OperationId, OperationStatus,
};
use posthaste_core::port::Actor;
use posthaste_core::reply::Reply;
use posthaste_core::status::Status;
use posthaste_engine::bulk::Bulk;
use posthaste_engine::service::Service as _;
use posthaste_engine::{Operator, Policies};
use tokio::sync::Notify;

use crate::world::{Answer, World, a_request};

fn refused() -> Answer {
    let reply = Reply::new(550, "5.1.1 No such user");
    Answer::Results(RecipientResult::Failed(Failure::new(
        Stage::Recipient,
        Cause::Reply(reply),
    )))
}

fn someone() -> Actor {
    Actor {
        name: "cli:root".into(),
        owner: None,
    }
}

/// A retry of everything.
fn retry(rate: Option<u32>) -> NewOperation {
    NewOperation {
        id: OperationId::generate(),
        action: BulkAction::Retry,
        filter: DeadFilter::default(),
        rate_per_second: rate,
    }
}

/// An operator, someone who goes on with operations, and what each of them wakes.
struct Desk {
    operator: Operator,
    bulk: Bulk,
    bulk_wake: Arc<Notify>,
    scheduler_wake: Arc<Notify>,
}

fn desk(world: &World) -> Desk {
    let (bulk_wake, scheduler_wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let store = Arc::clone(&world.store);
    let policies = Arc::new(Policies::default());
    let operator = Operator::new(Arc::clone(&store), policies, Arc::clone(&scheduler_wake));
    Desk {
        operator: operator.waking(Arc::clone(&bulk_wake)),
        bulk: Bulk::new(store, Arc::clone(&scheduler_wake)),
        bulk_wake,
        scheduler_wake,
    }
}

/// New emails that died at once. The sender is stopped again.
async fn died(world: &mut World, count: usize) -> Vec<EmailId> {
    world.start_sender();
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(world.accept(a_request()).await);
    }
    for _ in 0..count {
        world.next_attempt().await.end(refused());
    }
    for id in &ids {
        world.until(*id, Status::Dead).await;
    }
    world.stop_sender().await;
    ids
}

fn is_woken(wake: &Notify) -> bool {
    wake.notified().now_or_never().is_some()
}

#[tokio::test]
async fn what_an_operation_retries_leaves_at_once() {
    let mut world = World::new();
    let ids = died(&mut world, 3).await;
    let desk = desk(&world);
    let nothing = desk.bulk.run_once().await.unwrap();
    assert_eq!((nothing.done, nothing.again_in), (0, None));
    let made = desk.operator.begin_operation(retry(None), &someone()).await;
    let made = made.unwrap();
    assert_eq!(made.total, 3);
    assert!(is_woken(&desk.bulk_wake), "it begins at once");
    let report = desk.bulk.run_once().await.unwrap();
    assert_eq!((report.done, report.again_in), (3, None));
    assert!(is_woken(&desk.scheduler_wake), "tickets are made at once");
    assert_eq!(world.scheduler.run_once().await.unwrap().done, 3);
    world.start_sender();
    for _ in 0..3 {
        world.next_attempt().await.end(Answer::Accepted);
    }
    for id in ids {
        let sent = world.until(id, Status::Sent).await;
        assert_eq!(sent.attempts.len(), 2);
    }
    let over = desk.operator.operation(made.id, None).await.unwrap();
    assert_eq!(over.unwrap().status, OperationStatus::Done);
    world.verify().await;
}

#[tokio::test]
async fn a_paced_operation_waits_for_each_of_its_steps() {
    let mut world = World::new();
    died(&mut world, 5).await;
    let desk = desk(&world);
    let someone = someone();
    let made = desk.operator.begin_operation(retry(Some(20)), &someone);
    let made = made.await.unwrap();
    // Twenty per second are two every tenth of a second.
    let tenth = Duration::from_millis(100);
    for (done, again_in) in [(2, Some(tenth)), (0, Some(tenth))] {
        let report = desk.bulk.run_once().await.unwrap();
        assert_eq!((report.done, report.again_in), (done, again_in));
    }
    world.clock.advance(tenth - Duration::from_micros(1));
    assert_eq!(desk.bulk.run_once().await.unwrap().done, 0);
    world.clock.advance(Duration::from_micros(1));
    assert_eq!(desk.bulk.run_once().await.unwrap().done, 2);
    // What is held is not due, however much time goes by.
    let change = async |change| {
        let changed = desk.operator.change_operation(made.id, change, &someone);
        changed.await.unwrap()
    };
    change(OperationChange::Pause).await;
    world.clock.advance(Duration::from_secs(3600));
    let held = desk.bulk.run_once().await.unwrap();
    assert_eq!((held.done, held.again_in), (0, None));
    change(OperationChange::Resume).await;
    assert!(is_woken(&desk.bulk_wake));
    let last = desk.bulk.run_once().await.unwrap();
    assert_eq!((last.done, last.again_in), (1, None));
    world.verify().await;
}
