//! Failed messages of other services over RabbitMQ, in and out.

use async_trait::async_trait;
use posthaste_core::message::Outgoing;
use posthaste_core::port::{BrokerCounts, FailureDelivery, Handed, MessageBroker};
use posthaste_core::status::Priority;

use super::health::Purpose;
use super::lane::{Lane, Plan};
use super::options::{OptionsError, QueueNames, RabbitMqOptions};
use super::outgoing;
use super::retry_message::{Received, decode};
use super::subscription::Source;
use super::topology::{QueueSpec, queues_of_messages};

/// Failed messages of other services over RabbitMQ. While it is away they wait in the store.
pub struct RabbitMqMessages {
    names: QueueNames,
    lane: Lane<Received>,
}

impl RabbitMqMessages {
    /// Starts to connect, and returns at once. Must be called within a tokio runtime. Whether
    /// tickets are consumed makes no difference here.
    ///
    /// # Errors
    ///
    /// If the options make no sense. That RabbitMQ is away is no error.
    pub fn start(options: RabbitMqOptions) -> Result<Self, OptionsError> {
        let plan = Plan {
            purpose: Purpose::Messages,
            queues: queues_of_messages(&options),
            sources: vec![source(&options)],
        };
        Ok(Self {
            lane: Lane::start(&options, plan)?,
            names: options.names,
        })
    }

    /// How many failures wait in this process to be received.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lane.waiting()
    }
}

/// Where failures come from.
fn source(options: &RabbitMqOptions) -> Source<Received> {
    let own_queues = options.names.all();
    Source {
        spec: QueueSpec::new(options.names.messages.clone(), options.queue_type),
        prefetch: options.messages_prefetch,
        priority: Priority::Normal,
        decode: Box::new(move |incoming| {
            decode(incoming, &own_queues).map_err(|error| error.to_string())
        }),
    }
}

#[async_trait]
impl MessageBroker for RabbitMqMessages {
    async fn receive(&self, most: usize) -> Vec<FailureDelivery> {
        let delivery = |(received, tag): (Received, u64)| FailureDelivery {
            failure: received.failure,
            hash: received.hash,
            redelivered: received.redelivered,
            tag,
        };
        let taken = self.lane.receive(most).await;
        taken.into_iter().map(delivery).collect()
    }

    async fn acknowledge(&self, tags: Vec<u64>) {
        self.lane.acknowledge(tags);
    }

    async fn give_back(&self, tags: Vec<u64>) {
        self.lane.give_back(tags);
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Handed> {
        let messages = messages.into_iter();
        let messages = messages.map(|message| outgoing::message(message, &self.names));
        self.lane.publish(messages.collect()).await
    }

    fn is_away(&self) -> bool {
        self.lane.is_away()
    }

    fn trouble(&self) -> Option<String> {
        self.lane.trouble()
    }

    fn counts(&self) -> BrokerCounts {
        self.lane.counts()
    }

    async fn close(&self) {
        self.lane.close().await;
    }
}
