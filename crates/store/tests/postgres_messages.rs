//! What only PostgreSQL promises about messages: several instances on one database.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::message::{
    Arrival, Failure, MessageAction, MessageId, MessagePolicy, MessageStatus, Outcome, Properties,
};
use posthaste_core::port::{
    Actor, ClaimedMessage, DeskStore as _, MessageRetention, MessageStore as _, Scheduled, Settled,
    Store as _,
};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::Database;
use tokio::task::JoinSet;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(3600);
const BYTES: usize = 1 << 30;

fn options(database: &Database) -> PostgresOptions {
    let mut options = PostgresOptions::new(database.url());
    options.connections = 4;
    options
}

async fn open(database: &Database) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(options(database)).await.unwrap())
}

fn policy() -> MessagePolicy {
    MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 3,
    }
}

fn operator() -> Actor {
    Actor {
        name: "cli:root".into(),
        owner: None,
    }
}

/// The failure of a message that has no retries left: it is due at once.
fn exhausted(id: u128) -> Arrival {
    Arrival {
        failure: Failure {
            message_id: MessageId(Uuid::from_u128(id)),
            payload: "hi".into(),
            original_queue: "billing".into(),
            error_reason: "no answer".into(),
            retry_count: 0,
            max_retries: Some(0),
            not_before: None,
            properties: Properties::default(),
        },
        hash: [0; 32],
        redelivered: false,
        random: 0.5,
    }
}

/// What came of claimed messages: all is well.
fn done(store: &PostgresStore, claimed: &[ClaimedMessage]) -> Vec<Settled> {
    let settle = |ClaimedMessage { message, .. }: &ClaimedMessage| {
        let (state, now) = (&message.state, store.now());
        let task = state.task(&policy());
        Settled {
            number: message.number,
            state: state.settled(&task, &Outcome::Done, &policy(), now, 0.5),
        }
    };
    claimed.iter().map(settle).collect()
}

async fn assert_clean(store: &PostgresStore) {
    assert_eq!(store.verify(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn an_instance_hears_what_an_operator_did_to_messages() {
    let database = Database::fresh().await;
    let (server, other) = (open(&database).await, open(&database).await);
    let mut brief = options(&database);
    brief.listens = false;
    let command = PostgresStore::open(brief).await.unwrap();
    let arrivals = vec![exhausted(1), exhausted(2)];
    other.schedule(arrivals, &policy()).await.unwrap();
    // It listens once it has looked around.
    server.changed().await;
    for (store, id) in [(&*other, 1), (&command, 2)] {
        let heard = server.changed();
        let ids = vec![MessageId(Uuid::from_u128(id))];
        let action = MessageAction::Retry;
        store
            .act_on_messages(ids, action, &operator())
            .await
            .unwrap();
        heard.await;
    }
}

/// Overlapping batches of the same messages from three instances, in every order, while others act,
/// claim, settle and prune.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_batches_of_three_instances_never_deadlock_a_caller() {
    const MESSAGES: u128 = 60;
    const ROUNDS: usize = 20;
    let database = Database::fresh().await;
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(open(&database).await);
    }
    let mut callers = JoinSet::new();
    for caller in 0..9_usize {
        let store = Arc::clone(&instances[caller % 3]);
        callers.spawn(async move {
            for round in 0..ROUNDS {
                let mut ids: Vec<u128> = (0..MESSAGES).collect();
                ids.rotate_left((caller * 17 + round * 3) % 60);
                if (caller + round) % 2 == 0 {
                    ids.reverse();
                }
                let arrivals = ids.iter().map(|id| exhausted(*id)).collect();
                let kept = store.schedule(arrivals, &policy()).await;
                assert_eq!(kept.expect("no deadlock reaches a caller").len(), 60);
                let claimed = store.claim_messages(25, BYTES, LEASE).await.unwrap();
                let mut settled = done(&store, &claimed);
                settled.reverse();
                store.settle_messages(settled).await.unwrap();
                let some = ids
                    .iter()
                    .take(20)
                    .map(|id| MessageId(Uuid::from_u128(*id)));
                let action = [MessageAction::Discard, MessageAction::Retry][round % 2];
                let acted = store
                    .act_on_messages(some.collect(), action, &operator())
                    .await;
                acted.unwrap();
                let now = MessageRetention {
                    retried: Duration::ZERO,
                    failed: Duration::ZERO,
                };
                store.prune_messages(now, 5).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    assert_clean(&instances[0]).await;
}

#[tokio::test]
async fn a_message_that_is_pruned_while_it_fails_again_is_new() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    store.schedule(vec![exhausted(1)], &policy()).await.unwrap();
    let claimed = store.claim_messages(1, BYTES, LEASE).await.unwrap();
    let number = claimed[0].message.number;
    let settled = store.settle_messages(done(&store, &claimed)).await;
    assert_eq!(settled.unwrap(), [true]);
    let beside = database.beside().await;
    let lock = "SELECT pg_backend_pid() FROM retry_queue WHERE id = $1 FOR UPDATE";
    beside.batch_execute("BEGIN").await.unwrap();
    let holder: i32 = beside.query_one(lock, &[&number]).await.unwrap().get(0);
    let failing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.schedule(vec![exhausted(1)], &policy()).await }
    });
    // It has seen that the message is known, and waits for it.
    let watcher = database.beside().await;
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                 WHERE $1 = ANY(pg_blocking_pids(pid)))";
    while !watcher
        .query_one(waits, &[&holder])
        .await
        .unwrap()
        .get::<_, bool>(0)
    {
        tokio::task::yield_now().await;
    }
    // As pruning does it.
    let prune = "DELETE FROM retry_queue;
         UPDATE message_count SET n = 0 WHERE status = 'failed'; COMMIT";
    beside.batch_execute(prune).await.unwrap();
    let answers = failing.await.unwrap().unwrap();
    let [Scheduled::Scheduled(state)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((state.status, state.token), (MessageStatus::Pending, 0));
    let claimed = store.claim_messages(1, BYTES, LEASE).await.unwrap();
    assert!(claimed[0].message.number > number);
    assert_clean(&store).await;
}

#[tokio::test]
async fn cut_connections_are_made_anew_without_a_word() {
    let database = Database::fresh().await;
    let name = format!("cut-{}", Uuid::now_v7());
    let mut options = options(&database);
    options.url = format!("{}&application_name={name}", options.url);
    let store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    let cut = async || {
        let cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE application_name = $1";
        beside.query(cut, &[&name]).await.unwrap();
    };
    for n in 0..3 {
        cut().await;
        store.schedule(vec![exhausted(n)], &policy()).await.unwrap();
        cut().await;
        assert!(store.next_message_due().await.unwrap().is_some());
        cut().await;
        let claimed = store.claim_messages(9, BYTES, LEASE).await.unwrap();
        assert_eq!(claimed.len(), 1);
        cut().await;
        let settled = store.settle_messages(done(&store, &claimed)).await;
        assert_eq!(settled.unwrap(), [true]);
        cut().await;
        let ids = vec![claimed[0].message.id];
        let action = MessageAction::Discard;
        store
            .act_on_messages(ids, action, &operator())
            .await
            .unwrap();
    }
    assert_clean(&store).await;
}

#[tokio::test]
async fn counters_are_added_up_and_stay_the_same() {
    let database = Database::fresh().await;
    let mut schedulers = Vec::new();
    for n in 0..4 {
        let store = open(&database).await;
        let arrivals = (0..10).map(|m| exhausted(n * 10 + m)).collect();
        store.schedule(arrivals, &policy()).await.unwrap();
        schedulers.push(store);
    }
    let store = &schedulers[0];
    let claimed = store.claim_messages(15, BYTES, LEASE).await.unwrap();
    store.settle_messages(done(store, &claimed)).await.unwrap();
    let before = store.message_statistics().await.unwrap();
    let beside = database.beside().await;
    let slots = "SELECT count(DISTINCT slot), count(*) FROM message_count";
    let row = beside.query_one(slots, &[]).await.unwrap();
    assert!(row.get::<_, i64>(0) > 1, "each connection has its own");
    let keep = MessageRetention {
        retried: LEASE,
        failed: LEASE,
    };
    assert_eq!(store.prune_messages(keep, 10).await.unwrap(), 0);
    let row = beside.query_one(slots, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 2));
    let after = store.message_statistics().await.unwrap();
    assert_eq!(after, before);
    let counted = BTreeMap::from([
        (MessageStatus::Pending, 25),
        (MessageStatus::Retried, 0),
        (MessageStatus::Failed, 15),
        (MessageStatus::Discarded, 0),
    ]);
    assert_eq!(after.by_status, counted);
    assert_clean(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_instances_claim_each_message_once() {
    let database = Database::fresh().await;
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(open(&database).await);
    }
    let arrivals = (0..600).map(exhausted).collect();
    instances[0].schedule(arrivals, &policy()).await.unwrap();
    let mut claiming = JoinSet::new();
    for n in 0..12 {
        let store = Arc::clone(&instances[n % 3]);
        claiming.spawn(async move {
            let mut numbers = Vec::new();
            loop {
                let claimed = store.claim_messages(40, BYTES, LEASE).await.unwrap();
                if claimed.is_empty() {
                    return numbers;
                }
                numbers.extend(claimed.iter().map(|claimed| claimed.message.number));
                let answers = store.settle_messages(done(&store, &claimed)).await.unwrap();
                assert!(answers.iter().all(|kept| *kept), "no claim is lost");
            }
        });
    }
    let mut numbers = claiming.join_all().await.concat();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 600);
    let counted = instances[0].message_statistics().await.unwrap().by_status;
    assert_eq!(counted[&MessageStatus::Failed], 600);
    assert_clean(&instances[0]).await;
}
