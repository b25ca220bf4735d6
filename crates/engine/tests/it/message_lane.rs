//! The message lane over a real store and a broker that does as it is told: what happens when a
//! word is lost, in either direction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_core::classification::Classifier;
use posthaste_core::message::{
    Destination, Failure, HeaderValue, MessageId, MessagePolicy, MessageRecord, MessageStatus,
    Outgoing, Properties,
};
use posthaste_core::port::{
    BrokerCounts, FailureDelivery, Handed, MessageBroker, MessageRetention, NoTracer, Retention,
    SharedStore,
};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_engine::metrics::Source;
use posthaste_engine::runtime::EngineParts;
use posthaste_engine::{
    AlertConfig, Engine, EngineConfig, MessageConfig, MessageMetrics, Metrics, Policies, Roles,
    Ways,
};
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::ManualClock;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rusqlite::Connection;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use uuid::Uuid;

use crate::world::NoTransport;

/// How long claims hold here. Only the manual clock gets that far.
const LEASE: Duration = Duration::from_secs(120);

/// What the lane told the broker about deliveries.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Acknowledged(Vec<u64>),
    GivenBack(Vec<u64>),
}

/// Messages that go out, and the way back for the broker's answers.
type Going = (Vec<Outgoing>, oneshot::Sender<Vec<Handed>>);

struct ScriptedBroker {
    deliveries: Mutex<mpsc::UnboundedReceiver<FailureDelivery>>,
    words: mpsc::UnboundedSender<Word>,
    going: mpsc::UnboundedSender<Going>,
    away: AtomicBool,
}

#[async_trait]
impl MessageBroker for ScriptedBroker {
    async fn receive(&self, most: usize) -> Vec<FailureDelivery> {
        let mut taken = Vec::new();
        self.deliveries
            .lock()
            .await
            .recv_many(&mut taken, most)
            .await;
        if taken.is_empty() {
            std::future::pending::<()>().await;
        }
        taken
    }

    async fn acknowledge(&self, tags: Vec<u64>) {
        self.words.send(Word::Acknowledged(tags)).ok();
    }

    async fn give_back(&self, tags: Vec<u64>) {
        self.words.send(Word::GivenBack(tags)).ok();
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Handed> {
        let (answer, answered) = oneshot::channel();
        self.going.send((messages, answer)).ok();
        answered.await.expect("the test answers")
    }

    fn is_away(&self) -> bool {
        self.away.load(Ordering::SeqCst)
    }

    fn trouble(&self) -> Option<String> {
        self.is_away().then(|| "it is away".to_owned())
    }

    fn counts(&self) -> BrokerCounts {
        BrokerCounts::default()
    }

    async fn close(&self) {}
}

/// Everything a test works with.
struct Lane {
    clock: Arc<ManualClock>,
    store: SharedStore,
    file: PathBuf,
    broker: Arc<ScriptedBroker>,
    deliver: mpsc::UnboundedSender<FailureDelivery>,
    words: mpsc::UnboundedReceiver<Word>,
    going: mpsc::UnboundedReceiver<Going>,
    registry: Registry,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl Lane {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.db");
        let clock = Arc::new(ManualClock::default());
        let mut options = SqliteOptions::new(&file);
        options.clock = Arc::<ManualClock>::clone(&clock);
        options.busy_timeout = Duration::from_millis(1);
        let store: SharedStore = Arc::new(SqliteStore::open(options).unwrap());
        let (deliver, deliveries) = mpsc::unbounded_channel();
        let (words, said) = mpsc::unbounded_channel();
        let (going, gone) = mpsc::unbounded_channel();
        let broker = Arc::new(ScriptedBroker {
            deliveries: Mutex::new(deliveries),
            words,
            going,
            away: AtomicBool::new(false),
        });
        let mut registry = Registry::default();
        let parts = EngineParts {
            store: Arc::clone(&store),
            broker: None,
            ways: Arc::new(Ways::single(Arc::new(NoTransport), 1)),
            policies: Arc::new(Policies::default()),
            classifier: Classifier::default(),
            metrics: Arc::new(Metrics::new(&mut registry, &[])),
            message_broker: Some(Arc::<ScriptedBroker>::clone(&broker)),
            message_metrics: Arc::new(MessageMetrics::new(&mut registry)),
            tracer: Arc::new(NoTracer),
            alert_channels: Vec::new(),
            wake: Arc::new(Notify::new()),
        };
        Self {
            clock,
            store,
            file,
            broker,
            deliver,
            words: said,
            going: gone,
            registry,
            engine: Engine::start(parts, config()),
            _folder: folder,
        }
    }

    fn hand_in(&self, tag: u64) -> MessageId {
        let failure = a_failure();
        let id = failure.message_id;
        let delivery = FailureDelivery {
            failure,
            hash: [1; 32],
            redelivered: false,
            tag,
        };
        self.deliver.send(delivery).ok();
        id
    }

    /// A message that is kept and due.
    async fn due(&mut self) -> MessageId {
        let id = self.hand_in(1);
        assert_eq!(self.word().await, Word::Acknowledged(vec![1]));
        self.clock.advance(Duration::from_secs(3));
        id
    }

    async fn word(&mut self) -> Word {
        self.words.recv().await.unwrap()
    }

    /// The one message that goes out next, answered like this.
    async fn goes_out(&mut self, answer: Handed) -> Outgoing {
        let (mut messages, answers) = self.going.recv().await.unwrap();
        assert_eq!(messages.len(), 1);
        answers.send(vec![answer]).unwrap();
        messages.remove(0)
    }

    async fn reaches(
        &self,
        id: MessageId,
        is_there: impl Fn(&MessageRecord) -> bool,
    ) -> MessageRecord {
        loop {
            match self.store.find_message(id).await {
                Ok(Some(message)) if is_there(&message) => return message,
                _ => tokio::task::yield_now().await,
            }
        }
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn config() -> EngineConfig {
    let day = Duration::from_hours(24);
    EngineConfig {
        roles: Roles {
            api: false,
            sender: false,
            scheduler: false,
            messages: true,
        },
        worker: "worker".into(),
        connections: 1,
        lease: day,
        retry_interval: day,
        retention: Retention {
            attempts: None,
            content: None,
            sent: day,
            dead: day,
            captures: day,
            audit: day,
        },
        drain: Duration::from_secs(1),
        session: day,
        alerts: AlertConfig::default(),
        source: Source::Api,
        patience: None,
        messages: MessageConfig {
            policy: MessagePolicy {
                retry: RetryPolicy::message(),
                max_publish_failures: 2,
            },
            // The clock is the test's, so looking often takes the place of waiting.
            poll_interval: Duration::from_millis(1),
            lease: LEASE,
            retention: MessageRetention {
                retried: day,
                failed: day,
            },
        },
    }
}

fn a_failure() -> Failure {
    Failure {
        message_id: MessageId(Uuid::now_v7()),
        payload: Bytes::from_static(b"payload"),
        original_queue: "orders".into(),
        error_reason: "timeout".into(),
        retry_count: 0,
        max_retries: None,
        not_before: None,
        properties: Properties::default(),
    }
}

#[tokio::test]
async fn a_failure_is_kept_put_back_and_settled() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    let outgoing = lane.goes_out(Handed::Confirmed).await;
    assert_eq!(outgoing.destination, Destination::Original("orders".into()));
    let count = outgoing.properties.headers.get("x-retry-count");
    assert_eq!(count, Some(&HeaderValue::Integer(1)));
    let message = lane
        .reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
    assert_eq!((message.state.retry_count, message.state.repeats), (1, 0));
    let metrics = lane.metrics();
    assert!(
        metrics.contains("retries_scheduled_total{queue=\"orders\"} 1"),
        "{metrics}"
    );
    let executed = "retries_executed_total{queue=\"orders\",status=\"success\"} 1";
    assert!(metrics.contains(executed), "{metrics}");
}

#[tokio::test]
async fn a_lost_confirmation_is_repeated_and_counted() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    let first = lane.goes_out(Handed::Unconfirmed).await;
    lane.reaches(id, |message| message.state.publish_failures == 1)
        .await;
    lane.clock.advance(Duration::from_secs(10));
    let second = lane.goes_out(Handed::Confirmed).await;
    assert_eq!(first, second, "the same message with the same headers");
    let message = lane
        .reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
    assert_eq!((message.state.retry_count, message.state.repeats), (1, 1));
    assert!(lane.metrics().contains("posthaste_message_repeats_total 1"));
}

#[tokio::test]
async fn one_that_hangs_keeps_nobody_from_its_time() {
    let mut lane = Lane::start();
    let slow = lane.due().await;
    let (_, unanswered) = lane.going.recv().await.unwrap();
    let quick = lane.due().await;
    lane.goes_out(Handed::Confirmed).await;
    lane.reaches(quick, |message| {
        message.state.status == MessageStatus::Retried
    })
    .await;
    unanswered.send(vec![Handed::Confirmed]).unwrap();
    lane.reaches(slow, |message| {
        message.state.status == MessageStatus::Retried
    })
    .await;
}

#[tokio::test]
async fn one_that_hangs_is_put_back_again_when_its_claim_is_over_and_not_before() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    let (first, _unanswered) = lane.going.recv().await.unwrap();
    // `due` moves the clock by three seconds: the claim has a moment left after this.
    lane.clock
        .advance(LEASE - Duration::from_secs(3) - Duration::from_micros(1));
    lane.due().await;
    let other = lane.goes_out(Handed::Confirmed).await;
    assert_ne!(other, first[0], "it is not the one that hangs");

    lane.clock.advance(Duration::from_micros(1));

    assert_eq!(lane.goes_out(Handed::Confirmed).await, first[0]);
    let message = lane
        .reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
    assert_eq!((message.state.retry_count, message.state.repeats), (1, 1));
}

#[tokio::test]
async fn while_the_broker_is_away_nothing_is_spent() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    lane.goes_out(Handed::Away).await;
    let message = lane
        .reaches(id, |message| message.state.last_error.is_some())
        .await;
    assert_eq!(message.state.status, MessageStatus::Pending);
    assert_eq!(message.state.repeats, 0);
    lane.goes_out(Handed::Confirmed).await;
    lane.reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
}

#[tokio::test]
async fn a_broker_that_says_so_is_not_even_asked() {
    let mut lane = Lane::start();
    lane.broker.away.store(true, Ordering::SeqCst);
    let id = lane.due().await;
    // It is taken in all the same, and nothing goes out.
    assert!(lane.going.try_recv().is_err());
    let message = lane.reaches(id, |_| true).await;
    assert_eq!((message.state.locked_until, message.state.token), (None, 0));
    lane.broker.away.store(false, Ordering::SeqCst);
    lane.goes_out(Handed::Confirmed).await;
    lane.reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
}

#[tokio::test]
async fn a_queue_that_is_not_there_leads_to_people() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    for (failures, answer) in [(1, Handed::NoQueue), (2, Handed::Refused)] {
        lane.goes_out(answer).await;
        let message = lane
            .reaches(id, |message| message.state.publish_failures == failures)
            .await;
        assert!(message.state.last_error.unwrap().contains("`orders`"));
        lane.clock.advance(Duration::from_secs(10));
    }
    let review = lane.goes_out(Handed::Confirmed).await;
    assert_eq!(review.destination, Destination::Review);
    let reason = review.properties.text("x-review-reason").unwrap();
    assert!(reason.starts_with("NotRepublished"), "{reason}");
    lane.reaches(id, |message| message.state.status == MessageStatus::Failed)
        .await;
    let metrics = lane.metrics();
    assert!(
        metrics.contains("retries_exhausted_total{queue=\"orders\"} 1"),
        "{metrics}"
    );
    let failed = "retries_executed_total{queue=\"orders\",status=\"failed\"} 2";
    assert!(metrics.contains(failed), "{metrics}");
}

#[tokio::test]
async fn nothing_is_acknowledged_while_the_store_cannot_write() {
    let mut lane = Lane::start();
    let mut other = Connection::open(&lane.file).unwrap();
    let lock = other
        .transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)
        .unwrap();
    let id = lane.hand_in(5);
    tokio::time::timeout(Duration::from_millis(300), lane.words.recv())
        .await
        .expect_err("it is not kept, so it is not acknowledged");
    lock.rollback().unwrap();
    assert_eq!(lane.word().await, Word::Acknowledged(vec![5]));
    lane.reaches(id, |_| true).await;
}

#[tokio::test]
async fn a_settlement_is_not_given_up_while_the_store_is_away() {
    let mut lane = Lane::start();
    let id = lane.due().await;
    let (_, answers) = lane.going.recv().await.unwrap();
    let mut other = Connection::open(&lane.file).unwrap();
    let lock = other
        .transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)
        .unwrap();
    answers.send(vec![Handed::Confirmed]).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    lock.rollback().unwrap();
    let message = lane
        .reaches(id, |message| message.state.status == MessageStatus::Retried)
        .await;
    assert_eq!(message.state.repeats, 0);
}

#[tokio::test]
async fn what_is_not_kept_goes_back_at_shutdown() {
    let mut lane = Lane::start();
    let mut other = Connection::open(&lane.file).unwrap();
    let _lock = other
        .transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)
        .unwrap();
    lane.hand_in(7);
    tokio::time::timeout(Duration::from_millis(300), lane.words.recv())
        .await
        .expect_err("it cannot be kept");
    lane.engine.stop().await;
    assert_eq!(lane.word().await, Word::GivenBack(vec![7]));
}

#[tokio::test]
async fn what_can_never_be_kept_goes_to_people() {
    let mut lane = Lane::start();
    let other = Connection::open(&lane.file).unwrap();
    other
        .execute_batch("DROP TABLE posthaste_retry_queue")
        .unwrap();
    lane.hand_in(8);
    let outgoing = lane.goes_out(Handed::Confirmed).await;
    assert_eq!(outgoing.destination, Destination::Review);
    assert!(outgoing.properties.text("x-review-reason").is_some());
    assert_eq!(lane.word().await, Word::Acknowledged(vec![8]));
}
