//! The message lane: failed messages of other services are taken in, kept until their time has
//! come, and put back into the queues they came from.

mod alarm;
mod consumer;
pub mod desk;
pub mod metrics;
mod pruner;
mod republisher;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::message::MessagePolicy;
use posthaste_core::port::{MessageBroker, MessageRetention, SharedStore, Tracer};
use posthaste_core::retry_policy::RetryPolicy;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::desk::{MessageDesk, MessagePage};
pub use self::metrics::MessageMetrics;

use self::alarm::Alarm;
use self::consumer::Consumer;
use self::pruner::MessagePruner;
use self::republisher::{Desk, Republisher};
use crate::service;

/// How the lane works.
#[derive(Debug, Clone)]
pub struct MessageConfig {
    /// How messages are tried again.
    pub policy: MessagePolicy,
    /// The backstop: messages are put back at their time, this catches what was missed.
    pub poll_interval: Duration,
    /// How long a claim holds. One that died is noticed after this time. The broker must answer
    /// sooner, or what it is still to answer about is put back again.
    pub lease: Duration,
    /// How long to keep messages that are over.
    pub retention: MessageRetention,
}

impl Default for MessageConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            policy: MessagePolicy {
                retry: RetryPolicy::message(),
                max_publish_failures: 10,
            },
            poll_interval: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            retention: MessageRetention {
                retried: 7 * DAY,
                failed: 30 * DAY,
            },
        }
    }
}

/// What the lane works with.
pub(crate) struct MessageLane {
    pub(crate) store: SharedStore,
    pub(crate) broker: Arc<dyn MessageBroker>,
    pub(crate) metrics: Arc<MessageMetrics>,
    pub(crate) tracer: Arc<dyn Tracer>,
    pub(crate) config: MessageConfig,
}

impl MessageLane {
    /// Starts everything. `wake` tells of changes by others.
    pub(crate) fn start(
        self,
        wake: &Arc<Notify>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) {
        let Self {
            store,
            broker,
            metrics,
            tracer,
            config,
        } = self;
        let policy = Arc::new(config.policy.clone());
        let alarm = Arc::new(Alarm::new(Arc::clone(wake)));
        let consumer = Consumer {
            store: Arc::clone(&store),
            broker: Arc::clone(&broker),
            policy: Arc::clone(&policy),
            metrics: Arc::clone(&metrics),
            alarm: Arc::clone(&alarm),
            tracer: Arc::clone(&tracer),
        };
        let desk = Desk {
            store: Arc::clone(&store),
            broker,
            policy,
            metrics,
            tracer,
            shutdown: shutdown.clone(),
        };
        let republisher = Republisher::new(desk, alarm, &config);
        let pruner = MessagePruner::new(store, config.retention);
        tasks.spawn(consumer.run(shutdown.clone()));
        tasks.spawn(service::run(
            Arc::new(republisher),
            Arc::clone(wake),
            shutdown.clone(),
        ));
        tasks.spawn(service::run(
            Arc::new(pruner),
            Arc::default(),
            shutdown.clone(),
        ));
    }
}
