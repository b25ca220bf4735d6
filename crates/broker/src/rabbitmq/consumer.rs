//! Takes tickets from all queues, over a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use lapin::Connection;
use posthaste_core::status::Priority;
use tokio::time::timeout;

use super::connection::{Backoff, Ended, Link, SETUP_DEADLINE, Service, Stop, no_answer};
use super::health::{Health, Role};
use super::inbox::Inbox;
use super::options::{Existing, RabbitMqOptions};
use super::review::Review;
use super::subscription::{Subscription, TicketLane};
use super::topology::{DeclareError, QueueSpec, declare, said};

/// A queue that is consumed.
struct TicketQueue {
    spec: QueueSpec,
    priority: Priority,
}

/// Fills the inbox.
pub(super) struct Consumer {
    queues: Vec<TicketQueue>,
    existing: Existing,
    prefetch: u16,
    give_back_after: Duration,
    health: Arc<Health>,
    inbox: Arc<Inbox>,
    review: Review,
}

impl Consumer {
    pub(super) fn new(
        options: &RabbitMqOptions,
        health: Arc<Health>,
        inbox: Arc<Inbox>,
        review: Review,
    ) -> Self {
        let queue = |(name, priority)| TicketQueue {
            spec: QueueSpec::new(name, options.queue_type),
            priority,
        };
        Self {
            queues: options.names.of_tickets().into_iter().map(queue).collect(),
            existing: options.existing_queues,
            prefetch: options.prefetch,
            give_back_after: options.give_back_after,
            health,
            inbox,
            review,
        }
    }

    /// Subscribes to a queue, which is declared if need be. None if only this queue fails.
    async fn subscribe(
        &self,
        connection: &Connection,
        queue: &TicketQueue,
    ) -> Result<Option<Subscription>, String> {
        let subscribing = async {
            declare(connection, &queue.spec, self.existing).await?;
            let name = &queue.spec.name;
            let subscription = Subscription::open(connection, name, self.prefetch).await;
            subscription.map_err(|error| match error.is_amqp_soft_error() {
                true => DeclareError::Queue(not_consumed(queue, &said(&error))),
                false => DeclareError::Connection(error),
            })
        };
        match timeout(SETUP_DEADLINE, subscribing).await {
            Ok(Ok(subscription)) => {
                self.health.queue_works(Role::Consumer, &queue.spec.name);
                Ok(Some(subscription))
            }
            Ok(Err(DeclareError::Queue(trouble))) => {
                self.trouble(queue, trouble);
                Ok(None)
            }
            Ok(Err(DeclareError::Connection(error))) => Err(error.to_string()),
            Err(_) => Err(no_answer()),
        }
    }

    async fn subscribe_all(
        &self,
        connection: &Connection,
    ) -> Result<Vec<Option<Subscription>>, String> {
        let mut subscriptions = Vec::new();
        for queue in &self.queues {
            subscriptions.push(self.subscribe(connection, queue).await?);
        }
        Ok(subscriptions)
    }

    /// Takes tickets from one queue. A queue that fails is tried again without disturbing the
    /// others. An error says why the connection is of no use any more.
    async fn consume(
        &self,
        connection: &Connection,
        queue: &TicketQueue,
        mut subscription: Option<Subscription>,
        mut stop: Stop,
    ) -> Result<(), String> {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            if let Some(subscription) = subscription {
                match subscription.serve(self.lane(queue), stop.clone()).await {
                    Ended::Stopped => return Ok(()),
                    Ended::Lost(why) if !connection.status().connected() => return Err(why),
                    Ended::Lost(why) => self.trouble(queue, not_consumed(queue, &why)),
                }
            }
            backoff.lasted(began.elapsed());
            tokio::select! {
                () = stop.wanted() => return Ok(()),
                () = backoff.wait() => {}
            }
            subscription = self.subscribe(connection, queue).await?;
        }
    }

    fn lane<'a>(&'a self, queue: &'a TicketQueue) -> TicketLane<'a> {
        TicketLane {
            queue: &queue.spec.name,
            priority: queue.priority,
            give_back_after: self.give_back_after,
            inbox: &self.inbox,
            review: &self.review,
        }
    }

    fn trouble(&self, queue: &TicketQueue, why: String) {
        let name = &queue.spec.name;
        self.health.queue_trouble(Role::Consumer, name, why);
    }
}

fn not_consumed(queue: &TicketQueue, why: &str) -> String {
    format!(
        "RabbitMQ's queue `{}` is not consumed: {why}",
        queue.spec.name
    )
}

impl Service for Consumer {
    const ROLE: Role = Role::Consumer;

    async fn serve(&self, link: Link, mut stop: Stop) -> Ended {
        let mut events = link.events();
        let subscribed = tokio::select! {
            () = stop.wanted() => return Ended::Stopped,
            why = events.lost() => Err(why),
            subscribed = self.subscribe_all(&link.connection) => subscribed,
        };
        let subscriptions = match subscribed {
            Ok(subscriptions) => subscriptions,
            Err(why) => return Ended::Lost(why),
        };
        self.health.up(Role::Consumer);
        let consuming = self.queues.iter().zip(subscriptions);
        let consuming = consuming.map(|(queue, subscription)| {
            self.consume(&link.connection, queue, subscription, stop.clone())
        });
        let ended = tokio::select! {
            why = events.lost() => Ended::Lost(why),
            ended = try_join_all(consuming) => match ended {
                Ok(_) => Ended::Stopped,
                Err(why) => Ended::Lost(why),
            },
        };
        link.close().await;
        ended
    }
}
