//! A real RabbitMQ for tests, with queues that are gone afterwards.

#![allow(dead_code, reason = "each test file needs another part of it")]

use std::sync::Arc;
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions,
    QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use posthaste_broker::rabbitmq::{QueueNames, QueueType};
use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::Broker;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The server's address.
pub(crate) fn url() -> String {
    std::env::var("TEST_RABBITMQ_URL").expect(
        "TEST_RABBITMQ_URL is missing: run ./scripts/test, or eval \"$(scripts/services env)\"",
    )
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "not within {PATIENCE:?}: {what}");
}

/// Queue names of one test. The queues are deleted when it is dropped.
pub(crate) struct Queues {
    pub(crate) names: QueueNames,
}

impl Queues {
    pub(crate) fn new() -> Self {
        let prefix = format!("test.{}", uuid::Uuid::now_v7().simple());
        Self {
            names: QueueNames {
                send: format!("{prefix}.send"),
                retry: Some(format!("{prefix}.retry")),
                dead: format!("{prefix}.dead"),
                review: format!("{prefix}.review"),
            },
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        let names = &self.names;
        let mut all = vec![names.send.clone(), names.high(), names.low()];
        all.extend(names.retry.clone());
        all.extend([names.dead.clone(), names.review.clone()]);
        all
    }

    /// Options for these queues.
    pub(crate) fn options(&self) -> RabbitMqOptions {
        RabbitMqOptions {
            names: self.names.clone(),
            service_name: "posthaste test".into(),
            queue_type: QueueType::Classic,
            ..RabbitMqOptions::new(url())
        }
    }
}

impl Drop for Queues {
    /// In a thread with a runtime of its own: the test's may be ending.
    fn drop(&mut self) {
        let all = self.all();
        let delete = move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let other = Other::connect().await;
                for queue in all {
                    other.delete(&queue).await;
                }
            });
        };
        let deleted = std::thread::spawn(delete).join();
        assert!(deleted.is_ok() || std::thread::panicking());
    }
}

/// A broker that is connected.
pub(crate) async fn started(options: RabbitMqOptions) -> Arc<RabbitMqBroker> {
    let broker = Arc::new(RabbitMqBroker::start(options).unwrap());
    ready(&broker).await;
    broker
}

/// Waits until nothing is wrong with a broker.
pub(crate) async fn ready(broker: &RabbitMqBroker) {
    until("the broker works", || broker.trouble().is_none()).await;
}

/// Another program that uses the same server.
pub(crate) struct Other {
    _connection: Connection,
    channel: Channel,
}

impl Other {
    pub(crate) async fn connect() -> Self {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&url(), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Self {
            _connection: connection,
            channel,
        }
    }

    pub(crate) async fn publish(&self, queue: &str, body: &[u8]) {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        let publishing =
            self.channel
                .basic_publish("".into(), queue.into(), options, body, properties);
        publishing.await.unwrap();
    }

    /// Takes a message, for good.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.unwrap()
    }

    /// How many messages are ready in a queue; none if it is not there.
    pub(crate) async fn count(&self, queue: &str) -> Option<u32> {
        let channel = self._connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
        Some(declared.await.ok()?.message_count())
    }

    /// Waits until so many messages are ready in a queue.
    pub(crate) async fn until_count(&self, queue: &str, count: u32) {
        let waiting = async {
            while self.count(queue).await != Some(count) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{queue} never held {count}");
    }

    pub(crate) async fn declare(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declaring = self.channel.queue_declare(queue.into(), options, arguments);
        declaring.await.unwrap();
    }

    pub(crate) async fn delete(&self, queue: &str) {
        let deleting = self
            .channel
            .queue_delete(queue.into(), QueueDeleteOptions::default());
        deleting.await.unwrap();
    }

    pub(crate) async fn purge(&self, queue: &str) {
        let purging = self
            .channel
            .queue_purge(queue.into(), QueuePurgeOptions::default());
        purging.await.unwrap();
    }
}
