//! Puts messages back into their queues when their time has come, and hands to people what cannot
//! be helped.
//!
//! A message is claimed, published with the broker's confirmation, and then settled. Whoever dies
//! in between leaves a claim that runs out: then the message is published again, with the same
//! headers, and the repeat is counted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::message::{
    MessagePolicy, MessageRecord, MessageState, MessageStatus, Outcome, Outgoing, Task,
};
use posthaste_core::port::{
    ClaimedMessage, Handed, MessageBroker, Settled, SharedStore, Span, SpanKind, StoreError, Tracer,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::MessageConfig;
use super::alarm::Alarm;
use super::metrics::MessageMetrics;
use crate::service::{Report, Service};

/// How many messages are claimed at a time, and how many bytes of them.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How many such batches are under way at a time.
const MOST_UNDER_WAY: usize = 3;

/// Rounds come no faster than this, so that a trickle does not cost a commit for each message.
const PACE: Duration = Duration::from_millis(15);

/// When the broker is away, the next look comes after this time.
const AWAY: Duration = Duration::from_millis(500);

/// While the store is away, settling is tried again after this time.
const REST: Duration = Duration::from_millis(250);

/// Puts messages back into their queues.
pub(super) struct Republisher {
    desk: Arc<Desk>,
    alarm: Arc<Alarm>,
    interval: Duration,
    lease: Duration,
}

impl Republisher {
    pub(super) fn new(desk: Desk, alarm: Arc<Alarm>, config: &MessageConfig) -> Self {
        Self {
            desk: Arc::new(desk),
            alarm,
            interval: config.poll_interval,
            lease: config.lease,
        }
    }

    /// Works on batches side by side until nothing is due or something is away. What is under way
    /// is always brought to its end.
    async fn work(&self) -> Result<Round, StoreError> {
        let mut under_way = JoinSet::new();
        let mut round = Ok(Round::default());
        loop {
            while under_way.len() < MOST_UNDER_WAY {
                let Some(claimed) = self.claim(&mut round).await else {
                    break;
                };
                let is_full = claimed.len() == BATCH;
                let desk = Arc::clone(&self.desk);
                under_way.spawn(async move { desk.put_back(claimed).await });
                if !is_full {
                    break;
                }
            }
            let has_room = under_way.len() < MOST_UNDER_WAY && round.is_ok();
            let joined = tokio::select! {
                joined = under_way.join_next() => joined,
                // One that hangs must not keep the others from their time.
                () = tokio::time::sleep(PACE), if has_room => continue,
            };
            match joined {
                Some(Ok(Ok(away))) => round.iter_mut().for_each(|round| round.away |= away),
                Some(Ok(Err(error))) => round = Err(error),
                Some(Err(error)) => {
                    tracing::error!(%error, "a batch of messages was dropped; it is claimed again");
                }
                None => return round,
            }
        }
    }

    /// Claims a batch, if there is one and it can be worked on.
    async fn claim(&self, round: &mut Result<Round, StoreError>) -> Option<Vec<ClaimedMessage>> {
        let so_far = round.as_mut().ok()?;
        so_far.away |= self.desk.broker.is_away();
        if so_far.away || self.desk.shutdown.is_cancelled() {
            return None;
        }
        let store = &self.desk.store;
        let claiming = store.claim_messages(BATCH, BATCH_BYTES, self.lease);
        match claiming.await {
            Ok(claimed) => {
                if claimed.is_empty() {
                    return None;
                }
                posthaste_core::failpoint::hit("messages.after_claim");
                so_far.done += claimed.len();
                Some(claimed)
            }
            Err(error) => {
                *round = Err(error);
                None
            }
        }
    }

    /// When the next round should come.
    async fn next_round(&self, round: Round) -> Result<Duration, StoreError> {
        if round.away {
            return Ok(AWAY);
        }
        if round.done > 0 {
            // More may have become due meanwhile.
            return Ok(PACE);
        }
        let due = self.desk.store.next_message_due().await?;
        let wait = due.map(|due| until(self.desk.store.now(), due));
        Ok(wait.map_or(self.interval, |wait| wait.max(PACE).min(self.interval)))
    }
}

/// What a round came to.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// How many messages were claimed.
    done: usize,
    /// Whether the broker was away.
    away: bool,
}

/// A little late is fine, early never is.
fn until(now: Timestamp, due: Timestamp) -> Duration {
    let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
    wait + Duration::from_millis(1)
}

#[async_trait]
impl Service for Republisher {
    fn name(&self) -> &'static str {
        "republisher"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        // Whatever is stored from now on may be missed by this round.
        self.alarm.plan(Timestamp::MAX);
        let round = self.work().await?;
        let wait = self.next_round(round).await?;
        let planned = self.desk.store.now().checked_add(wait);
        self.alarm.plan(planned.unwrap_or(Timestamp::MAX));
        Ok(Report {
            done: round.done,
            again_in: Some(wait),
        })
    }
}

/// Where a batch is worked on.
pub(super) struct Desk {
    pub(super) store: SharedStore,
    pub(super) broker: Arc<dyn MessageBroker>,
    pub(super) policy: Arc<MessagePolicy>,
    pub(super) metrics: Arc<MessageMetrics>,
    pub(super) tracer: Arc<dyn Tracer>,
    pub(super) shutdown: CancellationToken,
}

impl Desk {
    /// Publishes claimed messages and settles them. The answer is whether the broker was away.
    async fn put_back(&self, claimed: Vec<ClaimedMessage>) -> Result<bool, StoreError> {
        let repeats = claimed.iter().filter(|claimed| claimed.is_repeat).count();
        self.metrics.repeats.inc_by(repeats as u64);
        let claimed: Vec<_> = claimed.into_iter().map(|of| of.message).collect();
        let tasks: Vec<Task> = claimed.iter().map(|m| m.state.task(&self.policy)).collect();
        let steps = claimed.iter().zip(&tasks);
        let (outgoing, spans): (Vec<_>, Vec<_>) = steps
            .map(|(message, task)| self.step(message, task))
            .unzip();
        let handed = self.broker.publish(outgoing).await;
        posthaste_core::failpoint::hit("messages.after_publish");
        let now = self.store.now();
        let mut settled = Vec::with_capacity(claimed.len());
        let steps = claimed.iter().zip(&tasks).zip(&handed).zip(spans);
        for (((message, task), handed), mut span) in steps {
            let outcome = self.outcome_of(message, task, handed);
            if let Outcome::Refused(why) | Outcome::Unconfirmed(why) | Outcome::Away(why) = &outcome
            {
                span.fail(why);
            }
            let random = rand::random();
            let state = message
                .state
                .settled(task, &outcome, &self.policy, now, random);
            self.note(message, &outcome, &state, now);
            settled.push(Settled {
                number: message.number,
                state,
            });
        }
        self.settle(settled).await?;
        Ok(handed.contains(&Handed::Away))
    }

    /// What goes out, and the step that it is in its trace.
    fn step(&self, message: &MessageRecord, task: &Task) -> (Outgoing, Box<dyn Span>) {
        let (name, mut outgoing) = match task {
            Task::Retry => ("message republish", Outgoing::retry(message)),
            Task::Review(reason) => ("message review", Outgoing::review(message, reason)),
        };
        let parent = message.properties.traceparent();
        let mut span = self.tracer.begin(name, SpanKind::Producer, parent);
        let queue = message.original_queue.as_str();
        span.set("messaging.message.id", message.id.0.into());
        span.set("posthaste.original_queue", queue.into());
        span.set("posthaste.retry_count", message.state.retry_count.into());
        outgoing.properties.set_traceparent(span.traceparent());
        (outgoing, span)
    }

    fn outcome_of(&self, message: &MessageRecord, task: &Task, handed: &Handed) -> Outcome {
        let queue = match task {
            Task::Retry => format!("its queue `{}`", message.original_queue),
            Task::Review(_) => "the review queue".to_owned(),
        };
        let trouble = || {
            let trouble = self.broker.trouble();
            trouble.unwrap_or_else(|| "the broker was away for a moment".to_owned())
        };
        match handed {
            Handed::Confirmed => Outcome::Done,
            Handed::NoQueue => Outcome::Refused(format!("{queue} is not there")),
            Handed::Refused => Outcome::Refused(format!("{queue} does not take it; is it full?")),
            Handed::Unconfirmed => Outcome::Unconfirmed(match self.broker.trouble() {
                Some(trouble) => format!("{queue} did not confirm it; {trouble}"),
                None => format!("{queue} did not confirm it"),
            }),
            Handed::Away => Outcome::Away(trouble()),
        }
    }

    fn note(
        &self,
        message: &MessageRecord,
        outcome: &Outcome,
        state: &MessageState,
        now: Timestamp,
    ) {
        let queue = &message.original_queue;
        let id = message.id;
        if state.repeats > message.state.repeats {
            self.metrics.repeats.inc();
        }
        match (outcome, state.status) {
            (Outcome::Done, MessageStatus::Failed) => {
                self.metrics.exhausted(queue);
                let reason = state.last_error.as_deref();
                tracing::info!(message_id = %id, queue, reason, "a message went to manual review");
            }
            (Outcome::Done, _) => {
                let lateness = now.duration_since(message.state.next_retry_at);
                self.metrics.executed(queue, true);
                self.metrics
                    .lateness
                    .observe(lateness.as_secs_f64().max(0.0));
                tracing::debug!(message_id = %id, queue, retry_count = state.retry_count, published = true, "republished a message");
            }
            (Outcome::Refused(reason) | Outcome::Unconfirmed(reason), _) => {
                self.metrics.executed(queue, false);
                tracing::warn!(message_id = %id, queue, published = false, skipped = reason, next_retry_at = %state.next_retry_at, "a message was not republished");
            }
            (Outcome::Away(reason), _) => {
                tracing::debug!(message_id = %id, queue, published = false, skipped = reason, "a message was not republished");
            }
        }
    }

    /// Settles, and tries again while the store is away: the messages are out, and forgetting that
    /// would put them out again.
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), StoreError> {
        let mut batches = vec![settled];
        let mut failed = None;
        while let Some(mut batch) = batches.pop() {
            match self.store.settle_messages(batch.clone()).await {
                Ok(kept) => {
                    let lost = kept.iter().filter(|kept| !**kept).count();
                    self.metrics.lost_claims.inc_by(lost as u64);
                }
                // One of them is the culprit: the others must not suffer.
                Err(StoreError::Failed(_)) if batch.len() > 1 => {
                    let second = batch.split_off(batch.len() / 2);
                    batches.extend([second, batch]);
                }
                Err(error @ StoreError::Failed(_)) => failed = Some(error),
                Err(error) if self.shutdown.is_cancelled() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, messages = batch.len(), "republished messages cannot be settled; will try again");
                    batches.push(batch);
                    tokio::time::sleep(REST).await;
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
