//! The embedded default: bounded queues in this process, one per priority.
//!
//! Full queues refuse tickets instead of growing; the senders then find those emails in the
//! store. Nothing survives the process, which is why `is_shared` says no.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste_core::port::{Broker, DeadNotice, Published, Route, Ticket, TicketDelivery};
use tokio::sync::Notify;

use crate::priority_queues::PriorityQueues;

/// Bounded queues in this process.
pub struct InProcessBroker {
    capacity: usize,
    queues: Mutex<PriorityQueues<Ticket>>,
    arrived: Notify,
}

impl InProcessBroker {
    /// Queues that hold at most `capacity` tickets each.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            queues: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, PriorityQueues<Ticket>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, most: usize) -> Vec<TicketDelivery> {
        let mut queues = self.queues();
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(ticket) = queues.take_next() else {
                break;
            };
            let tag = queues.taken();
            taken.push(TicketDelivery { ticket, tag });
        }
        taken
    }
}

#[async_trait]
impl Broker for InProcessBroker {
    async fn publish(&self, _route: Route, tickets: Vec<Ticket>) -> Vec<Published> {
        let published = {
            let mut queues = self.queues();
            let publish = |ticket: Ticket| {
                if queues.waiting(ticket.priority) >= self.capacity {
                    return Published::Refused;
                }
                queues.push_back(ticket.priority, ticket);
                Published::Confirmed
            };
            tickets.into_iter().map(publish).collect()
        };
        self.arrived.notify_one();
        published
    }

    async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
        loop {
            let taken = self.take(most);
            if !taken.is_empty() || most == 0 {
                // Another receiver may be waiting for what is left.
                self.arrived.notify_one();
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    async fn acknowledge(&self, _deliveries: Vec<TicketDelivery>) {}

    async fn give_back(&self, deliveries: Vec<TicketDelivery>) {
        {
            let mut queues = self.queues();
            // To the front and in their order: they were first before.
            for delivery in deliveries.into_iter().rev() {
                let ticket = delivery.ticket;
                queues.push_front(ticket.priority, ticket);
            }
        }
        self.arrived.notify_one();
    }

    /// Nobody outside of this process can listen.
    async fn announce(&self, notices: Vec<DeadNotice>) -> Vec<Published> {
        vec![Published::Confirmed; notices.len()]
    }

    fn is_shared(&self) -> bool {
        false
    }
}
