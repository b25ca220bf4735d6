//! Where a message is in its life, and every step it can take. Stores only execute what is
//! decided here.
//!
//! A row that is claimed, by a lease that may have expired, may be back in its queue already:
//! nobody knows until the claim is settled. So a failure that arrives meanwhile is treated as if
//! it had been.

use std::time::Duration;

use super::{Arrival, DeliveryHash, MessageStatus};
use crate::Timestamp;
use crate::lifecycle::after;
use crate::retry_policy::RetryPolicy;

/// How messages are tried again.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePolicy {
    /// The delays, and how many retries a message gets that does not say so itself.
    pub retry: RetryPolicy,
    /// How often a message may find no way into its queue before people are asked.
    pub max_publish_failures: u32,
}

impl MessagePolicy {
    /// The moment of the next retry, after so many.
    fn next_retry_at(
        &self,
        retry_count: u32,
        now: Timestamp,
        random: f64,
        not_before: Option<Timestamp>,
    ) -> Timestamp {
        let delay = self
            .retry
            .delay(retry_count.saturating_add(1), random, None);
        let at = after(now, delay);
        not_before.map_or(at, |floor| at.max(floor))
    }
}

/// The hot part of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageState {
    /// Where it is in its life.
    pub status: MessageStatus,
    /// How often it was put back into its queue, or should have been as its senders counted.
    pub retry_count: u32,
    /// How often it may be.
    pub max_retries: u32,
    /// When it is due.
    pub next_retry_at: Timestamp,
    /// How often in a row its queue did not take it.
    pub publish_failures: u32,
    /// How often it may have been put back twice: a claim was never settled, or a publish never
    /// answered.
    pub repeats: u32,
    /// Raised by every claim and every change from outside; whoever settles must hold it.
    pub token: i64,
    /// Until when it is claimed. A claim that was never settled leaves this in the past.
    pub locked_until: Option<Timestamp>,
    /// Why it is not where it should be.
    pub last_error: Option<String>,
    /// When it reached a state that only news can change.
    pub finished_at: Option<Timestamp>,
    /// The content of the last delivery that was taken in.
    pub delivery: DeliveryHash,
}

/// What is to be done with a message that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Put it back into its queue.
    Retry,
    /// Ask people, for this reason.
    Review(String),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has it where it belongs.
    Done,
    /// Its queue is not there or does not take it, for this reason.
    Refused(String),
    /// It was sent, but the broker's answer was lost, for this reason: it may be there already.
    Unconfirmed(String),
    /// It was not sent: the broker was away, for this reason.
    Away(String),
}

/// What an operator can do to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageAction {
    /// Put it back into its queue now, with a fresh budget if that was spent.
    Retry,
    /// Give up on it.
    Discard,
}

impl MessageAction {
    /// Its name in the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry_message",
            Self::Discard => "discard_message",
        }
    }
}

/// Why an operator's action was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageRefusal {
    /// It is in its queue again; what becomes of it is that queue's affair.
    #[error("it was republished; it comes back if it fails again")]
    Republished,
    /// Someone is at it this very moment.
    #[error("it is being republished right now")]
    Claimed,
}

impl MessageState {
    /// What becomes of a message when a failure arrives: `None` if that says nothing new.
    /// `known` is its state so far.
    #[must_use]
    pub fn after_arrival(
        known: Option<&Self>,
        arrival: &Arrival,
        policy: &MessagePolicy,
        now: Timestamp,
    ) -> Option<Self> {
        let incoming = arrival.failure.retry_count;
        let Some(known) = known else {
            return Some(Self::scheduled(incoming, 0, 0, arrival, policy, now));
        };
        if arrival.redelivered && arrival.hash == known.delivery {
            // Delivered again because we could not say that we have it.
            return None;
        }
        let claimed = known.locked_until.is_some();
        let retry_count = match known.status {
            MessageStatus::Pending if incoming > known.retry_count => incoming,
            MessageStatus::Pending if !claimed => return None,
            // It is being put back: this is the failure after that.
            MessageStatus::Pending => known.retry_count.saturating_add(1),
            _ => known.retry_count.max(incoming),
        };
        let token = known.token.saturating_add(1);
        let repeats = known.repeats;
        Some(Self::scheduled(
            retry_count,
            token,
            repeats,
            arrival,
            policy,
            now,
        ))
    }

    fn scheduled(
        retry_count: u32,
        token: i64,
        repeats: u32,
        arrival: &Arrival,
        policy: &MessagePolicy,
        now: Timestamp,
    ) -> Self {
        let failure = &arrival.failure;
        let max_retries = failure.max_retries.unwrap_or(policy.retry.max_attempts);
        let next_retry_at = if retry_count >= max_retries {
            // Nothing to wait for: people are asked at once.
            now
        } else {
            policy.next_retry_at(retry_count, now, arrival.random, failure.not_before)
        };
        Self {
            status: MessageStatus::Pending,
            retry_count,
            max_retries,
            next_retry_at,
            publish_failures: 0,
            repeats,
            token,
            locked_until: None,
            last_error: None,
            finished_at: None,
            delivery: arrival.hash,
        }
    }

    /// Whether all retries were used.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.retry_count >= self.max_retries
    }

    /// Whether it can be claimed: it is due, and nobody holds it.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.status == MessageStatus::Pending
            && self.next_retry_at <= now
            && self.locked_until.is_none_or(|until| until <= now)
    }

    /// Claims it for a time. If an earlier claim was never settled, this may be a repeat.
    #[must_use]
    pub fn claimed(&self, now: Timestamp, lease: Duration) -> Self {
        Self {
            token: self.token.saturating_add(1),
            repeats: self.repeats + u32::from(self.locked_until.is_some()),
            locked_until: Some(after(now, lease)),
            ..self.clone()
        }
    }

    /// What is to be done with it, now that it is claimed.
    #[must_use]
    pub fn task(&self, policy: &MessagePolicy) -> Task {
        if self.is_exhausted() {
            return Task::Review(format!(
                "MaxRetriesExceeded: {} of {} retries were made",
                self.retry_count, self.max_retries
            ));
        }
        if self.publish_failures >= policy.max_publish_failures {
            let error = self.last_error.as_deref().unwrap_or("its queue refused it");
            return Task::Review(format!(
                "NotRepublished: tried {} times; {error}",
                self.publish_failures
            ));
        }
        Task::Retry
    }

    /// What becomes of it after that.
    #[must_use]
    pub fn settled(
        &self,
        task: &Task,
        outcome: &Outcome,
        policy: &MessagePolicy,
        now: Timestamp,
        random: f64,
    ) -> Self {
        let mut next = Self {
            locked_until: None,
            ..self.clone()
        };
        match (outcome, task) {
            (Outcome::Done, Task::Retry) => {
                next.status = MessageStatus::Retried;
                next.retry_count = self.retry_count.saturating_add(1);
                next.publish_failures = 0;
                next.last_error = None;
                next.finished_at = Some(now);
            }
            (Outcome::Done, Task::Review(reason)) => {
                next.status = MessageStatus::Failed;
                next.last_error = Some(reason.clone());
                next.finished_at = Some(now);
            }
            (Outcome::Refused(reason), task) => {
                // What stopped it on the way to its queue matters more than what stops it on the
                // way to people.
                let earlier = match task {
                    Task::Retry => None,
                    Task::Review(_) => self.last_error.clone(),
                };
                let reason = earlier.unwrap_or_else(|| reason.clone());
                next.refused(reason, policy, now, random);
            }
            (Outcome::Away(reason), _) => next.last_error = Some(reason.clone()),
            (Outcome::Unconfirmed(reason), _) => {
                next.repeats = self.repeats.saturating_add(1);
                next.refused(reason.clone(), policy, now, random);
            }
        }
        next
    }

    /// It did not get where it should, and is to be tried again after a while.
    fn refused(&mut self, reason: String, policy: &MessagePolicy, now: Timestamp, random: f64) {
        self.publish_failures = self.publish_failures.saturating_add(1);
        self.last_error = Some(reason);
        let delay = policy.retry.delay(self.publish_failures, random, None);
        self.next_retry_at = after(now, delay);
    }

    /// What becomes of it when an operator acts: `None` if it is so already.
    pub fn acted(
        &self,
        action: MessageAction,
        now: Timestamp,
    ) -> Result<Option<Self>, MessageRefusal> {
        let held = self.locked_until.is_some_and(|until| until > now);
        match (action, self.status) {
            (_, MessageStatus::Retried) => return Err(MessageRefusal::Republished),
            (_, MessageStatus::Pending) if held => return Err(MessageRefusal::Claimed),
            (MessageAction::Discard, MessageStatus::Discarded) => return Ok(None),
            _ => {}
        }
        let mut next = Self {
            token: self.token.saturating_add(1),
            locked_until: None,
            // A claim that nobody settled may have put it back already.
            repeats: self.repeats + u32::from(self.locked_until.is_some()),
            ..self.clone()
        };
        match action {
            MessageAction::Retry => {
                next.status = MessageStatus::Pending;
                next.next_retry_at = now;
                next.publish_failures = 0;
                next.last_error = None;
                next.finished_at = None;
                if self.is_exhausted() {
                    next.retry_count = 0;
                }
            }
            MessageAction::Discard => {
                next.status = MessageStatus::Discarded;
                next.finished_at = Some(now);
            }
        }
        Ok(Some(next))
    }
}
