//! RabbitMQ does what every broker must do, with both kinds of queues.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "rabbitmq/server.rs"]
mod server;

use std::sync::Arc;

use posthaste_broker::RabbitMqBroker;
use posthaste_broker::rabbitmq::{QueueType, RabbitMqOptions};
use posthaste_core::port::Broker;
use posthaste_testkit::broker_conformance::BrokerFixture;
use posthaste_testkit::{Queues, broker_conformance};
use server::{options_for, started, until};

struct RabbitMq {
    broker: Arc<RabbitMqBroker>,
    // After the broker: nobody declares them again once it is gone.
    _queues: Queues,
}

impl RabbitMq {
    async fn fresh(queue_type: QueueType) -> Self {
        let queues = Queues::fresh();
        let options = RabbitMqOptions {
            queue_type,
            ..options_for(&queues)
        };
        Self {
            broker: started(options).await,
            _queues: queues,
        }
    }
}

impl BrokerFixture for RabbitMq {
    fn broker(&self) -> Arc<dyn Broker> {
        self.broker.clone()
    }

    async fn arrived(&self, count: usize) {
        until("they arrived", || self.broker.waiting() >= count).await;
    }
}

mod quorum {
    use super::*;
    broker_conformance!(RabbitMq::fresh(QueueType::Quorum));
}

mod classic {
    use super::*;
    broker_conformance!(RabbitMq::fresh(QueueType::Classic));
}
