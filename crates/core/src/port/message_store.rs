//! Where messages of other services wait for their next retry.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::Timestamp;
use crate::message::{
    Arrival, MessageAction, MessageId, MessagePolicy, MessageRecord, MessageRefusal, MessageState,
    MessageStatus,
};

/// What became of a failure that arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheduled {
    /// It waits in this state.
    Scheduled(MessageState),
    /// It said nothing new.
    Duplicate,
}

/// A message that was claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedMessage {
    /// The message, with the state that the claim gave it.
    pub message: MessageRecord,
    /// Whether it was claimed before and never settled: it may be in its queue already.
    pub is_repeat: bool,
}

/// A message whose claim is settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// Its number in the store.
    pub number: i64,
    /// Its state now; the token is that of the claim.
    pub state: MessageState,
}

/// What became of an operator's action on one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageActed {
    /// Done; the state is this now.
    Done(MessageStatus),
    /// It was so already.
    Unchanged(MessageStatus),
    /// The state does not allow it.
    Refused(MessageRefusal, MessageStatus),
    /// There is no such message.
    NotFound,
}

/// Which messages to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageFilter {
    /// Only in one of these states.
    pub statuses: Vec<MessageStatus>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// At most this many.
    pub limit: usize,
    /// Only those after (older than) the one with this number.
    pub after: Option<i64>,
}

/// Numbers about messages, from counters that are written with the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageStatistics {
    /// How many messages are in each state.
    pub by_status: BTreeMap<MessageStatus, u64>,
    /// When the oldest that still waits became due.
    pub oldest_due: Option<Timestamp>,
}

/// How long to keep messages that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRetention {
    /// Those that were republished: as long as they count how often.
    pub retried: Duration,
    /// Those in review, and discarded ones.
    pub failed: Duration,
}

/// The way of a message through the store. Each batch is one transaction; nothing is answered
/// before it is durable.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Keeps failures that arrived, as [`MessageState::after_arrival`] decides about each in
    /// their order. The answers are in their order.
    async fn schedule(
        &self,
        arrivals: Vec<Arrival>,
        policy: &MessagePolicy,
    ) -> StoreResult<Vec<Scheduled>>;

    /// Claims messages that are due, the most overdue first, each once however many ask: no more
    /// than so many, and no further one once their payloads have so many bytes.
    async fn claim_messages(
        &self,
        most: usize,
        most_bytes: usize,
        lease: Duration,
    ) -> StoreResult<Vec<ClaimedMessage>>;

    /// Records what became of claimed messages; `false` for a claim that was lost.
    async fn settle_messages(&self, settled: Vec<Settled>) -> StoreResult<Vec<bool>>;

    /// When the next message is due, or the next claim runs out.
    async fn next_message_due(&self) -> StoreResult<Option<Timestamp>>;

    /// Acts on messages, as [`MessageState::acted`] decides, with an audit entry each.
    async fn act_on_messages(
        &self,
        ids: Vec<MessageId>,
        action: MessageAction,
        actor: &Actor,
    ) -> StoreResult<Vec<MessageActed>>;

    /// One message with its payload.
    async fn find_message(&self, id: MessageId) -> StoreResult<Option<MessageRecord>>;

    /// Messages, newest first, without their payloads.
    async fn list_messages(&self, filter: &MessageFilter) -> StoreResult<Vec<MessageRecord>>;

    /// Numbers about messages.
    async fn message_statistics(&self) -> StoreResult<MessageStatistics>;

    /// Removes what is over for long enough, at most `most` messages; how many that were.
    async fn prune_messages(&self, retention: MessageRetention, most: usize) -> StoreResult<u64>;
}
