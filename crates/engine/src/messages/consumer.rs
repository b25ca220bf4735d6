//! Takes failures in: many in one commit, and acknowledged after it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_core::message::{Arrival, MessagePolicy, MessageState, Outgoing};
use posthaste_core::port::{
    FailureDelivery, Handed, MessageBroker, Scheduled, SharedStore, Span, SpanKind, StoreError,
    Tracer,
};
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;
use super::metrics::MessageMetrics;

/// How many failures share a commit, and how many bytes of them.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// For so long failures gather before the next commit. None of them is in a hurry: the shortest
/// delay is a hundred times as long. Without it each commit was for 16 of them at 5,000 per second.
const GATHER: Duration = Duration::from_millis(20);

/// A batch of this size is never too large.
const SMALL: usize = 50;

/// While the store is away its work is tried again after this time, then after twice as long.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// The pause after a failure that the store cannot keep.
const BETWEEN_CULPRITS: Duration = Duration::from_secs(1);

/// Takes failures in.
pub(super) struct Consumer {
    pub(super) store: SharedStore,
    pub(super) broker: Arc<dyn MessageBroker>,
    pub(super) policy: Arc<MessagePolicy>,
    pub(super) metrics: Arc<MessageMetrics>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) tracer: Arc<dyn Tracer>,
}

impl Consumer {
    /// Takes failures in until shutdown. What is not kept by then goes back to the queue.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        loop {
            let received = tokio::select! {
                () = shutdown.cancelled() => return,
                received = self.broker.receive(BATCH) => received,
            };
            let (tags, is_full) = (tags_of(&received), received.len() == BATCH);
            let keeping = AssertUnwindSafe(self.keep(received, &shutdown)).catch_unwind();
            if keeping.await.is_err() {
                tracing::error!("taking messages in panicked; they go back to the queue");
                self.broker.give_back(tags).await;
                tokio::time::sleep(LONGEST_REST).await;
            }
            if !is_full {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = shutdown.cancelled() => {}
                }
            }
        }
    }

    /// Keeps failures, however long that takes. At shutdown they go back to the queue if the store
    /// is away.
    async fn keep(&self, mut received: Vec<FailureDelivery>, shutdown: &CancellationToken) {
        let _spans: Vec<_> = received.iter_mut().map(|of| self.trace(of)).collect();
        let mut batches = by_size(received);
        let mut rest = FIRST_REST;
        while let Some(batch) = batches.pop() {
            let arrivals = batch.iter().map(arrival_of).collect();
            match self.store.schedule(arrivals, &self.policy).await {
                Ok(scheduled) => {
                    posthaste_core::failpoint::hit("messages.before_acknowledge");
                    self.note(&batch, &scheduled);
                    self.broker.acknowledge(tags_of(&batch)).await;
                    rest = FIRST_REST;
                }
                // One of them is the culprit: the others must not suffer.
                Err(StoreError::Failed(_)) if batch.len() > 1 => {
                    batches.extend(halves(batch));
                }
                Err(error @ StoreError::Failed(_)) => {
                    self.put_aside(batch, &error).await;
                    // If it is not this one but all of them, that should not happen in a rush.
                    if !self.rest(BETWEEN_CULPRITS, &batches, shutdown).await {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, waiting = batch.len(), "failed messages cannot be kept; will try again");
                    // A smaller one may get through where a large one is too slow.
                    if rest > FIRST_REST && batch.len() > SMALL {
                        batches.extend(halves(batch));
                    } else {
                        batches.push(batch);
                    }
                    if !self.rest(rest, &batches, shutdown).await {
                        return;
                    }
                    rest = (rest * 2).min(LONGEST_REST);
                }
            }
        }
    }

    /// Rests for a while. At shutdown it hands back instead what is not kept, and answers `false`.
    async fn rest(
        &self,
        pause: Duration,
        waiting: &[Vec<FailureDelivery>],
        shutdown: &CancellationToken,
    ) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = shutdown.cancelled() => {
                let tags = waiting.iter().flat_map(|batch| tags_of(batch));
                self.broker.give_back(tags.collect()).await;
                false
            }
        }
    }

    /// Begins the step of taking it in, which later steps follow from.
    fn trace(&self, delivery: &mut FailureDelivery) -> Box<dyn Span> {
        let failure = &mut delivery.failure;
        let parent = failure.properties.traceparent();
        let name = "message schedule";
        let mut span = self.tracer.begin(name, SpanKind::Consumer, parent);
        span.set("messaging.message.id", failure.message_id.0.into());
        let queue = failure.original_queue.as_str();
        span.set("posthaste.original_queue", queue.into());
        span.set("posthaste.retry_count", failure.retry_count.into());
        failure.properties.set_traceparent(span.traceparent());
        span
    }

    /// Asks people about a failure that the store cannot keep. It never should come to that.
    async fn put_aside(&self, batch: Vec<FailureDelivery>, error: &StoreError) {
        for FailureDelivery { failure, tag, .. } in batch {
            tracing::error!(message_id = %failure.message_id, %error, "a failed message cannot be kept; it goes to review");
            let outgoing = Outgoing::rejected(&failure, &error.to_string());
            if self.broker.publish(vec![outgoing]).await == [Handed::Confirmed] {
                self.broker.acknowledge(vec![tag]).await;
            } else {
                self.broker.give_back(vec![tag]).await;
            }
        }
    }

    fn note(&self, batch: &[FailureDelivery], scheduled: &[Scheduled]) {
        for (FailureDelivery { failure, .. }, scheduled) in batch.iter().zip(scheduled) {
            match scheduled {
                Scheduled::Scheduled(MessageState {
                    retry_count,
                    max_retries,
                    next_retry_at,
                    ..
                }) => {
                    self.metrics.scheduled(&failure.original_queue);
                    self.alarm.expect(*next_retry_at);
                    tracing::debug!(
                        message_id = %failure.message_id,
                        queue = failure.original_queue,
                        retry_count,
                        max_retries,
                        next_retry_at = %next_retry_at,
                        "scheduled a message"
                    );
                }
                Scheduled::Duplicate => {
                    self.metrics.duplicates.inc();
                    tracing::info!(
                        message_id = %failure.message_id,
                        queue = failure.original_queue,
                        retry_count = failure.retry_count,
                        "a failed message arrived again; nothing changes"
                    );
                }
            }
        }
    }
}

/// The second half and then the first, which is taken up next.
fn halves(mut batch: Vec<FailureDelivery>) -> [Vec<FailureDelivery>; 2] {
    let second = batch.split_off(batch.len() / 2);
    [second, batch]
}

/// Batches that are not too large for one transaction, the first of them last.
fn by_size(received: Vec<FailureDelivery>) -> Vec<Vec<FailureDelivery>> {
    let mut batches: Vec<Vec<FailureDelivery>> = Vec::new();
    let mut bytes = 0;
    for delivery in received {
        bytes += delivery.failure.payload.len();
        match batches.last_mut() {
            Some(batch) if bytes <= BATCH_BYTES => batch.push(delivery),
            _ => {
                bytes = delivery.failure.payload.len();
                batches.push(vec![delivery]);
            }
        }
    }
    batches.reverse();
    batches
}

fn tags_of(batch: &[FailureDelivery]) -> Vec<u64> {
    batch.iter().map(|delivery| delivery.tag).collect()
}

fn arrival_of(delivery: &FailureDelivery) -> Arrival {
    Arrival {
        failure: delivery.failure.clone(),
        hash: delivery.hash,
        redelivered: delivery.redelivered,
        random: rand::random(),
    }
}
