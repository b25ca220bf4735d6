//! Takes from all queues of a lane, over a connection of its own.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use lapin::Connection;
use tokio::time::timeout;

use super::connection::{Backoff, Ended, Link, SETUP_DEADLINE, Service, Stop, no_answer};
use super::health::{Health, Role};
use super::options::Existing;
use super::subscription::{Intake, Source, Subscription};
use super::topology::{DeclareError, declare, said};

/// Fills the inbox.
pub(super) struct Consumer<T> {
    pub(super) sources: Vec<Source<T>>,
    pub(super) existing: Existing,
    pub(super) health: Arc<Health>,
    pub(super) intake: Intake<T>,
}

impl<T: Send> Consumer<T> {
    /// Subscribes to a queue, which is declared if need be. None if only this queue fails.
    async fn subscribe(
        &self,
        connection: &Connection,
        source: &Source<T>,
    ) -> Result<Option<Subscription>, String> {
        let subscribing = async {
            declare(connection, &source.spec, self.existing).await?;
            let subscription = Subscription::open(connection, source).await;
            subscription.map_err(|error| match error.is_amqp_soft_error() {
                true => DeclareError::Queue(not_consumed(source, &said(&error))),
                false => DeclareError::Connection(error),
            })
        };
        match timeout(SETUP_DEADLINE, subscribing).await {
            Ok(Ok(subscription)) => {
                self.health.queue_works(Role::Consumer, &source.spec.name);
                Ok(Some(subscription))
            }
            Ok(Err(DeclareError::Queue(trouble))) => {
                self.trouble(source, trouble);
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
        for source in &self.sources {
            subscriptions.push(self.subscribe(connection, source).await?);
        }
        Ok(subscriptions)
    }

    /// Takes from one queue. A queue that fails is tried again without disturbing the
    /// others. An error says why the connection is of no use any more.
    async fn consume(
        &self,
        connection: &Connection,
        source: &Source<T>,
        mut subscription: Option<Subscription>,
        mut stop: Stop,
    ) -> Result<(), String> {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            if let Some(subscription) = subscription {
                let serving = subscription.serve(source, &self.intake, stop.clone());
                match serving.await {
                    Ended::Stopped => return Ok(()),
                    Ended::Lost(why) if !connection.status().connected() => return Err(why),
                    Ended::Lost(why) => self.trouble(source, not_consumed(source, &why)),
                }
            }
            backoff.lasted(began.elapsed());
            tokio::select! {
                () = stop.wanted() => return Ok(()),
                () = backoff.wait() => {}
            }
            subscription = self.subscribe(connection, source).await?;
        }
    }

    fn trouble(&self, source: &Source<T>, why: String) {
        let name = &source.spec.name;
        self.health.queue_trouble(Role::Consumer, name, why);
    }
}

fn not_consumed<T>(source: &Source<T>, why: &str) -> String {
    let name = &source.spec.name;
    format!("RabbitMQ's queue `{name}` is not consumed: {why}")
}

impl<T: Send> Service for Consumer<T> {
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
        let consuming = self.sources.iter().zip(subscriptions);
        let consuming = consuming.map(|(source, subscription)| {
            self.consume(&link.connection, source, subscription, stop.clone())
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
