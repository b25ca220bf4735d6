//! Where tickets wait. A broker is a hint: the store is the truth, so losing or doubling a
//! ticket is harmless.

use async_trait::async_trait;

use crate::Timestamp;
use crate::email::EmailId;
use crate::status::{DeadReason, Priority};

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
    /// The trace that the email belongs to, for others who look at the queue.
    pub traceparent: Option<String>,
}

/// Which way a ticket takes, where first attempts and retries are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// For an email that was just accepted.
    First,
    /// For an email that waited in the store.
    Retry,
}

/// Whether something that was published is in the broker's care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The broker confirmed it.
    Confirmed,
    /// It did not, or has no room: treat it as lost.
    Refused,
}

/// A ticket that was taken from the broker, to be acknowledged once it has said what it has to
/// say: when its attempt has begun, or need not begin.
#[derive(Debug, Clone)]
pub struct TicketDelivery {
    /// The ticket.
    pub ticket: Ticket,
    /// The broker's own number for it.
    pub tag: u64,
}

/// Says that an email died, to whoever listens outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadNotice {
    /// Which email.
    pub email_id: EmailId,
    /// The caller's key.
    pub message_key: String,
    /// Why.
    pub reason: DeadReason,
    /// What went wrong last.
    pub error: Option<String>,
    /// Counted attempts.
    pub attempts: u32,
    /// When.
    pub died_at: Timestamp,
}

/// What happened at the broker since this process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BrokerCounts {
    /// Tickets or messages that could not be read, and were put aside for review.
    pub undecodable: u64,
    /// Publishes that came back because no queue was there for them.
    pub returned: u64,
    /// How often a lost connection was made anew.
    pub reconnected: u64,
}

/// Publishes tickets and hands them out.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Publishes tickets; the answers are in their order. Never waits for room, and for the
    /// broker's word only so long.
    async fn publish(&self, route: Route, tickets: Vec<Ticket>) -> Vec<Published>;

    /// Takes up to `most` tickets, high priority first. Waits until there is at least one. May
    /// be given up at any time without losing a ticket.
    async fn receive(&self, most: usize) -> Vec<TicketDelivery>;

    /// Forgets tickets that have said what they have to say.
    async fn acknowledge(&self, deliveries: Vec<TicketDelivery>);

    /// Hands tickets back, for this process or another to take again.
    async fn give_back(&self, deliveries: Vec<TicketDelivery>);

    /// Tells whoever listens that emails died; the answers are in their order.
    async fn announce(&self, notices: Vec<DeadNotice>) -> Vec<Published>;

    /// Whether tickets reach other processes, and outlive this one. If not, whatever was queued
    /// before it started has no ticket any more.
    fn is_shared(&self) -> bool;

    /// What is wrong with it, if something is. Emails are sent all the same, a little later.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What happened since this process began.
    fn counts(&self) -> BrokerCounts {
        BrokerCounts::default()
    }

    /// Hands back what was taken and not acknowledged, and lets go of the connection.
    async fn close(&self) {}
}
