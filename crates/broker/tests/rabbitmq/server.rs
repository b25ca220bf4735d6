//! Brokers on a real RabbitMQ.

use std::sync::Arc;
use std::time::Duration;

use posthaste_broker::rabbitmq::{QueueNames, QueueType};
use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::Broker;
use posthaste_testkit::Queues;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

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

/// Options for these queues, with a route of their own for retries.
pub(crate) fn options_for(queues: &Queues) -> RabbitMqOptions {
    RabbitMqOptions {
        names: QueueNames {
            send: queues.send(),
            retry: Some(queues.retry()),
            dead: queues.dead(),
            messages: queues.messages(),
            review: queues.review(),
        },
        queue_type: QueueType::Classic,
        service_name: "posthaste test".into(),
        ..RabbitMqOptions::new(queues.url())
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
