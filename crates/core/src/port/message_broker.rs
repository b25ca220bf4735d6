//! Where failed messages of other services come in, and where they go out again.
//!
//! Unlike a ticket, a message is no hint: it is acknowledged after the store has it, and the
//! store forgets it after the broker has it.

use async_trait::async_trait;

use super::BrokerCounts;
use crate::message::{DeliveryHash, Failure, Outgoing};

/// A failure that was taken from the broker, to be acknowledged once the store has it.
#[derive(Debug, Clone)]
pub struct FailureDelivery {
    /// What was handed in.
    pub failure: Failure,
    /// Identifies the content of the delivery.
    pub hash: DeliveryHash,
    /// Whether the broker delivered it before, to us or another process.
    pub redelivered: bool,
    /// The broker's own number for it.
    pub tag: u64,
}

/// What became of a message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handed {
    /// The broker has it in its queue.
    Confirmed,
    /// There is no such queue.
    NoQueue,
    /// The queue does not take it: it is full, for example.
    Refused,
    /// It was sent, but nobody knows whether it arrived.
    Unconfirmed,
    /// It was not sent: the broker is away.
    Away,
}

/// Takes failures in and puts messages back.
#[async_trait]
pub trait MessageBroker: Send + Sync {
    /// Takes up to `most` failures. Waits until there is at least one. May be given up at any
    /// time without losing one. What cannot be read never arrives here: the broker puts it aside
    /// for review with its raw bytes.
    async fn receive(&self, most: usize) -> Vec<FailureDelivery>;

    /// Forgets deliveries, by their tags: the store has them.
    async fn acknowledge(&self, tags: Vec<u64>);

    /// Hands deliveries back, for this process or another to take again.
    async fn give_back(&self, tags: Vec<u64>);

    /// Publishes messages; the answers are in their order, and come within bounded time.
    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Handed>;

    /// Whether messages can be published at all right now.
    fn is_away(&self) -> bool;

    /// What is wrong with it, if something is.
    fn trouble(&self) -> Option<String>;

    /// What happened since this process began.
    fn counts(&self) -> BrokerCounts;

    /// Hands back what was taken and not acknowledged, and lets go of the connection.
    async fn close(&self);
}
