//! What tickets and messages have in common: a connection to publish, one to consume, and an
//! inbox between them and whoever works.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::uri::AMQPUri;
use posthaste_core::port::{BrokerCounts, Handed};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::{Service, Stop, keep_connected};
use super::consumer::Consumer;
use super::health::{Health, Purpose, Role};
use super::inbox::{Inbox, Settlement};
use super::message::Message;
use super::options::{OptionsError, RabbitMqOptions};
use super::publisher::Publisher;
use super::review::Review;
use super::subscription::{Intake, Source};
use super::topology::QueueSpec;

/// How long closing may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(3);

/// What a lane is for.
pub(super) struct Plan<T> {
    pub(super) purpose: Purpose,
    /// The queues it keeps in place.
    pub(super) queues: Vec<QueueSpec>,
    /// The queues it takes from; if none, it only publishes.
    pub(super) sources: Vec<Source<T>>,
}

/// Two connections, what came in over one of them, and what goes out over the other.
pub(super) struct Lane<T> {
    health: Arc<Health>,
    publisher: Arc<Publisher>,
    inbox: Arc<Inbox<T>>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl<T: Send + 'static> Lane<T> {
    /// Starts to connect, and returns at once.
    pub(super) fn start(options: &RabbitMqOptions, plan: Plan<T>) -> Result<Self, OptionsError> {
        let uri = options.validate()?;
        let consumer_role = (!plan.sources.is_empty()).then_some(Role::Consumer);
        let roles = [Role::Publisher].into_iter().chain(consumer_role);
        let health = Arc::new(Health::new(plan.purpose, roles));
        let publisher = Arc::new(Publisher::new(options, plan.queues, health.clone()));
        let lane = Self {
            health: health.clone(),
            publisher: publisher.clone(),
            inbox: Arc::new(Inbox::new()),
            stop: watch::Sender::new(false),
            tasks: Mutex::default(),
        };
        let name = format!("{} {}", options.service_name, plan.purpose);
        lane.run(&uri, &name, publisher.clone());
        if consumer_role.is_some() {
            let review = Review {
                queue: options.names.review.clone(),
                publisher,
                health: health.clone(),
            };
            let intake = Intake {
                inbox: lane.inbox.clone(),
                review,
                give_back_after: options.give_back_after,
            };
            let consumer = Consumer {
                sources: plan.sources,
                existing: options.existing_queues,
                health,
                intake,
            };
            lane.run(&uri, &name, Arc::new(consumer));
        }
        Ok(lane)
    }

    fn run<S: Service + 'static>(&self, uri: &AMQPUri, name: &str, service: Arc<S>) {
        let (uri, health) = (uri.clone(), self.health.clone());
        let name = format!("{name} {}", S::ROLE);
        let stop = Stop(self.stop.subscribe());
        let running = async move { keep_connected(&*service, &uri, &name, &health, stop).await };
        self.tasks().spawn(running);
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes messages; the answers are in their order, and come within the deadline.
    pub(super) async fn publish(&self, messages: Vec<Message>) -> Vec<Handed> {
        self.publisher.publish(messages).await
    }

    /// Takes up to so many, each with its tag; waits until there is one.
    pub(super) async fn receive(&self, most: usize) -> Vec<(T, u64)> {
        self.inbox.receive(most).await
    }

    /// Forgets deliveries.
    pub(super) fn acknowledge(&self, tags: impl IntoIterator<Item = u64>) {
        self.inbox.settle(tags, Settlement::Acknowledge);
    }

    /// Hands deliveries back.
    pub(super) fn give_back(&self, tags: impl IntoIterator<Item = u64>) {
        self.inbox.settle(tags, Settlement::GiveBack);
    }

    /// How many wait in this process to be received.
    pub(super) fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Whether nothing can be published right now.
    pub(super) fn is_away(&self) -> bool {
        self.publisher.is_away()
    }

    /// What is wrong right now, in a sentence for people.
    pub(super) fn trouble(&self) -> Option<String> {
        self.health.trouble()
    }

    /// What happened so far.
    pub(super) fn counts(&self) -> BrokerCounts {
        self.health.counts()
    }

    /// Hands back what was taken and not acknowledged, and lets go of the connections.
    pub(super) async fn close(&self) {
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks());
        let ending = async { while tasks.join_next().await.is_some() {} };
        // Whatever is not done by then is aborted.
        let _ = timeout(CLOSE_DEADLINE, ending).await;
    }
}
