//! What operations people watch of messages. The names without `posthaste_` are those of the
//! service that this lane stands in for.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use posthaste_core::message::MessageStatus;
use posthaste_core::port::BrokerCounts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::{StatusLabel, seconds};

/// Queues that get a label of their own; whoever hands messages in chooses their names.
const MOST_QUEUES: usize = 500;

/// The label of all further queues.
const OTHER_QUEUES: &str = "other";

/// How a retry can end.
const SUCCESS: &str = "success";
const FAILED: &str = "failed";

/// One label called `queue`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabel {
    queue: String,
}

/// The labels of a retry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RetryLabels {
    queue: String,
    status: &'static str,
}

/// Every metric of the message lane.
#[derive(Debug)]
pub struct MessageMetrics {
    scheduled: Family<QueueLabel, Counter>,
    executed: Family<RetryLabels, Counter>,
    exhausted: Family<QueueLabel, Counter>,
    depth: Gauge,
    messages: Family<StatusLabel, Gauge>,
    /// How late messages were put back.
    pub lateness: Histogram,
    /// Failures that arrived again and changed nothing.
    pub duplicates: Counter,
    /// Messages that may have been put back twice.
    pub repeats: Counter,
    /// Claims that were lost before they were settled.
    pub lost_claims: Counter,
    /// For how long the oldest message has been due, in seconds.
    pub oldest_due_age: Gauge,
    undecodable: Counter,
    queues: Mutex<BTreeSet<String>>,
}

impl MessageMetrics {
    /// Registers every metric.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            scheduled: Family::default(),
            executed: Family::default(),
            exhausted: Family::default(),
            depth: Gauge::default(),
            messages: Family::default(),
            lateness: seconds(),
            duplicates: Counter::default(),
            repeats: Counter::default(),
            lost_claims: Counter::default(),
            oldest_due_age: Gauge::default(),
            undecodable: Counter::default(),
            queues: Mutex::default(),
        };
        metrics.register(registry);
        for status in MessageStatus::ALL {
            metrics.set_messages(*status, 0);
        }
        // Without a series the names would not be there before the first message.
        metrics.start_at_zero(OTHER_QUEUES);
        metrics
    }

    fn start_at_zero(&self, queue: &str) {
        let queue = queue.to_owned();
        for status in [SUCCESS, FAILED] {
            let queue = queue.clone();
            let labels = RetryLabels { queue, status };
            self.executed.get_or_create(&labels).inc_by(0);
        }
        let label = QueueLabel { queue };
        self.scheduled.get_or_create(&label).inc_by(0);
        self.exhausted.get_or_create(&label).inc_by(0);
    }

    fn register(&self, registry: &mut Registry) {
        // Counters get their `_total` from the encoder.
        registry.register(
            "retries_scheduled",
            "Failed messages taken in",
            self.scheduled.clone(),
        );
        registry.register(
            "retries_executed",
            "Messages put back into their queues, or not taken there",
            self.executed.clone(),
        );
        registry.register(
            "retries_exhausted",
            "Messages moved to manual review",
            self.exhausted.clone(),
        );
        registry.register(
            "retry_queue_depth",
            "Messages that wait",
            self.depth.clone(),
        );
        registry.register(
            "posthaste_messages",
            "Messages by status",
            self.messages.clone(),
        );
        registry.register(
            "posthaste_message_lateness_seconds",
            "How late messages were put back",
            self.lateness.clone(),
        );
        registry.register(
            "posthaste_message_duplicates",
            "Failed messages that arrived again and changed nothing",
            self.duplicates.clone(),
        );
        registry.register(
            "posthaste_message_repeats",
            "Messages that may have been put back twice",
            self.repeats.clone(),
        );
        registry.register(
            "posthaste_message_claims_lost",
            "Claims of messages that were lost before they were settled",
            self.lost_claims.clone(),
        );
        registry.register(
            "posthaste_oldest_message_due_age_seconds",
            "For how long the oldest message has been due",
            self.oldest_due_age.clone(),
        );
        registry.register(
            "posthaste_messages_undecodable",
            "Failed messages that could not be read and were put aside for review",
            self.undecodable.clone(),
        );
    }

    /// A failure was taken in.
    pub fn scheduled(&self, queue: &str) {
        self.scheduled.get_or_create(&self.label(queue)).inc();
    }

    /// A message was put back, or its queue did not take it.
    pub fn executed(&self, queue: &str, success: bool) {
        let QueueLabel { queue } = self.label(queue);
        let status = if success { SUCCESS } else { FAILED };
        let labels = RetryLabels { queue, status };
        self.executed.get_or_create(&labels).inc();
    }

    /// A message went to manual review.
    pub fn exhausted(&self, queue: &str) {
        self.exhausted.get_or_create(&self.label(queue)).inc();
    }

    /// How many messages are in this state.
    pub fn set_messages(&self, status: MessageStatus, n: u64) {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        if status == MessageStatus::Pending {
            self.depth.set(n);
        }
        self.messages.get_or_create(&status.into()).set(n);
    }

    /// What the broker has counted by itself.
    pub fn set_broker(&self, counts: BrokerCounts) {
        let counter = self.undecodable.inner();
        counter.store(counts.undecodable, Ordering::Relaxed);
    }

    fn label(&self, queue: &str) -> QueueLabel {
        let mut known = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            known.contains(queue) || (known.len() < MOST_QUEUES && known.insert(queue.to_owned()));
        let queue = if is_known { queue } else { OTHER_QUEUES };
        QueueLabel {
            queue: queue.to_owned(),
        }
    }
}
