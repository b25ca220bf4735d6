//! Where tickets wait. A broker is a hint: the store is the truth, so losing or doubling a
//! ticket is harmless.

use async_trait::async_trait;

use crate::Timestamp;
use crate::email::EmailId;
use crate::status::Priority;

/// Says that an email is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Which email.
    pub email_id: EmailId,
    /// The caller's key, for people who look into the queue.
    pub message_key: String,
    /// Which emails go first.
    pub priority: Priority,
    /// When the ticket was made.
    pub queued_at: Timestamp,
}

/// Whether a ticket is in the broker's care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The broker confirmed it.
    Confirmed,
    /// It did not, or has no room: treat the ticket as lost.
    Refused,
}

/// A ticket that was taken from the broker, to be acknowledged once its email is settled.
#[derive(Debug, Clone)]
pub struct TicketDelivery {
    /// The ticket.
    pub ticket: Ticket,
    /// The broker's own number for it.
    pub tag: u64,
}

/// Publishes tickets and hands them out.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Publishes tickets; the answers are in their order. Never waits for room.
    async fn publish(&self, tickets: Vec<Ticket>) -> Vec<Published>;

    /// Takes up to `most` tickets, high priority first. Waits until there is at least one.
    async fn receive(&self, most: usize) -> Vec<TicketDelivery>;

    /// Forgets tickets whose emails are settled.
    async fn acknowledge(&self, deliveries: Vec<TicketDelivery>);

    /// Whether tickets outlive this process. If not, whatever was queued before it started has
    /// no ticket any more.
    fn is_durable(&self) -> bool;
}
