//! Tickets over RabbitMQ.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{
    Broker, BrokerCounts, DeadNotice, Handed, Published, Route, Ticket, TicketDelivery,
};

use super::health::Purpose;
use super::lane::{Lane, Plan};
use super::message::Message;
use super::options::{OptionsError, QueueNames, RabbitMqOptions};
use super::subscription::Source;
use super::ticket_body::{decode_ticket, encode_notice, encode_ticket, message_id};
use super::topology::{QueueSpec, queues_of_tickets};

/// Tickets over RabbitMQ. While it is away every publish is refused at once, and the senders find
/// their work in the store.
pub struct RabbitMqBroker {
    names: QueueNames,
    dead_notice_ttl: Duration,
    lane: Lane<Ticket>,
}

impl RabbitMqBroker {
    /// Starts to connect, and returns at once. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the options make no sense. That RabbitMQ is away is no error.
    pub fn start(options: RabbitMqOptions) -> Result<Self, OptionsError> {
        let plan = Plan {
            purpose: Purpose::Tickets,
            queues: queues_of_tickets(&options),
            sources: sources(&options),
        };
        Ok(Self {
            lane: Lane::start(&options, plan)?,
            names: options.names,
            dead_notice_ttl: options.dead_notice_ttl,
        })
    }

    /// How many tickets wait in this process to be received.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lane.waiting()
    }

    fn ticket_message(&self, route: Route, ticket: &Ticket) -> Message {
        let queue = self.names.of_ticket(route, ticket.priority);
        let message = Message::json(&queue, message_id(ticket.email_id), encode_ticket(ticket));
        message.tracing(ticket.traceparent.as_deref())
    }

    fn notice_message(&self, notice: &DeadNotice) -> Message {
        let (id, body) = (message_id(notice.email_id), encode_notice(notice));
        Message::json(&self.names.dead, id, body).expiring(self.dead_notice_ttl)
    }

    async fn publish_all(&self, messages: impl Iterator<Item = Message>) -> Vec<Published> {
        let handed = self.lane.publish(messages.collect()).await;
        handed.into_iter().map(published).collect()
    }
}

/// Where tickets come from; nowhere if this process does not take them.
fn sources(options: &RabbitMqOptions) -> Vec<Source<Ticket>> {
    if !options.consumes {
        return Vec::new();
    }
    let source = |(name, priority)| Source {
        spec: QueueSpec::new(name, options.queue_type),
        prefetch: options.prefetch,
        priority,
        decode: Box::new(move |incoming| {
            decode_ticket(&incoming.body, priority).map_err(|error| error.to_string())
        }),
    };
    options.names.of_tickets().into_iter().map(source).collect()
}

/// A ticket is a hint: whatever is not confirmed counts as lost.
fn published(handed: Handed) -> Published {
    match handed {
        Handed::Confirmed => Published::Confirmed,
        Handed::NoQueue | Handed::Refused | Handed::Unconfirmed | Handed::Away => {
            Published::Refused
        }
    }
}

fn tags(deliveries: Vec<TicketDelivery>) -> impl Iterator<Item = u64> {
    deliveries.into_iter().map(|delivery| delivery.tag)
}

#[async_trait]
impl Broker for RabbitMqBroker {
    async fn publish(&self, route: Route, tickets: Vec<Ticket>) -> Vec<Published> {
        let messages = tickets
            .iter()
            .map(|ticket| self.ticket_message(route, ticket));
        self.publish_all(messages).await
    }

    async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
        let taken = self.lane.receive(most).await.into_iter();
        taken
            .map(|(ticket, tag)| TicketDelivery { ticket, tag })
            .collect()
    }

    async fn acknowledge(&self, deliveries: Vec<TicketDelivery>) {
        self.lane.acknowledge(tags(deliveries));
    }

    async fn give_back(&self, deliveries: Vec<TicketDelivery>) {
        self.lane.give_back(tags(deliveries));
    }

    async fn announce(&self, notices: Vec<DeadNotice>) -> Vec<Published> {
        let messages = notices.iter().map(|notice| self.notice_message(notice));
        self.publish_all(messages).await
    }

    fn is_shared(&self) -> bool {
        true
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
