//! Queues in RabbitMQ, shared by any number of processes.
//!
//! There are two connections, one to publish and one to consume, because RabbitMQ stops reading
//! from those that publish when it runs out of memory or disk. Both are made again for ever. While
//! RabbitMQ is away every publish is refused at once, and the senders find their work in the
//! store.

mod channel_pool;
mod connection;
mod consumer;
mod health;
mod inbox;
mod ledger;
mod options;
mod publisher;
mod review;
mod socket;
mod subscription;
mod ticket_body;
mod topology;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lapin::uri::AMQPUri;
use posthaste_core::port::{
    Broker, BrokerCounts, DeadNotice, Published, Route, Ticket, TicketDelivery,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use options::{Existing, OptionsError, QueueNames, QueueType, RabbitMqOptions};

use connection::{Service, Stop, keep_connected};
use consumer::Consumer;
use health::{Health, Role};
use inbox::{Inbox, Settlement};
use publisher::{Message, Publisher};
use review::Review;

/// How long closing may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(3);

/// Queues in RabbitMQ.
pub struct RabbitMqBroker {
    names: QueueNames,
    dead_notice_ttl: Duration,
    health: Arc<Health>,
    publisher: Arc<Publisher>,
    inbox: Arc<Inbox>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl RabbitMqBroker {
    /// Starts to connect, and returns at once. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the options make no sense. That RabbitMQ is away is no error.
    pub fn start(options: RabbitMqOptions) -> Result<Self, OptionsError> {
        let uri = options.validate()?;
        let consumer_role = options.consumes.then_some(Role::Consumer);
        let roles = [Role::Publisher].into_iter().chain(consumer_role);
        let health = Arc::new(Health::new(roles));
        let publisher = Arc::new(Publisher::new(&options, health.clone()));
        let inbox = Arc::new(Inbox::default());
        let broker = Self {
            names: options.names.clone(),
            dead_notice_ttl: options.dead_notice_ttl,
            health: health.clone(),
            publisher: publisher.clone(),
            inbox: inbox.clone(),
            stop: watch::Sender::new(false),
            tasks: Mutex::default(),
        };
        broker.run(&uri, &options, publisher.clone());
        if options.consumes {
            let review = Review {
                queue: options.names.review.clone(),
                publisher,
                health: health.clone(),
            };
            let consumer = Consumer::new(&options, health, inbox, review);
            broker.run(&uri, &options, Arc::new(consumer));
        }
        Ok(broker)
    }

    /// How many tickets wait in this process to be received.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    fn run<S: Service + 'static>(&self, uri: &AMQPUri, options: &RabbitMqOptions, service: Arc<S>) {
        let (uri, health) = (uri.clone(), self.health.clone());
        let name = format!("{} {}", options.service_name, S::ROLE);
        let stop = Stop(self.stop.subscribe());
        let running = async move { keep_connected(&*service, &uri, &name, &health, stop).await };
        self.tasks().spawn(running);
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ticket_message(&self, route: Route, ticket: &Ticket) -> Message {
        let queue = self.names.of_ticket(route, ticket.priority);
        let body = ticket_body::encode_ticket(ticket);
        Message::json(&queue, ticket_body::message_id(ticket.email_id), body)
    }

    fn notice_message(&self, notice: &DeadNotice) -> Message {
        let body = ticket_body::encode_notice(notice);
        let id = ticket_body::message_id(notice.email_id);
        Message::json(&self.names.dead, id, body).expiring(self.dead_notice_ttl)
    }
}

#[async_trait]
impl Broker for RabbitMqBroker {
    async fn publish(&self, route: Route, tickets: Vec<Ticket>) -> Vec<Published> {
        let message = |ticket| self.ticket_message(route, ticket);
        self.publisher
            .publish(tickets.iter().map(message).collect())
            .await
    }

    async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
        self.inbox.receive(most).await
    }

    async fn acknowledge(&self, deliveries: Vec<TicketDelivery>) {
        self.inbox.settle(&deliveries, Settlement::Acknowledge);
    }

    async fn give_back(&self, deliveries: Vec<TicketDelivery>) {
        self.inbox.settle(&deliveries, Settlement::GiveBack);
    }

    async fn announce(&self, notices: Vec<DeadNotice>) -> Vec<Published> {
        let message = |notice| self.notice_message(notice);
        self.publisher
            .publish(notices.iter().map(message).collect())
            .await
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<String> {
        self.health.trouble()
    }

    fn counts(&self) -> BrokerCounts {
        self.health.counts()
    }

    async fn close(&self) {
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks());
        let ending = async { while tasks.join_next().await.is_some() {} };
        // Whatever is not done by then is aborted.
        let _ = timeout(CLOSE_DEADLINE, ending).await;
    }
}
