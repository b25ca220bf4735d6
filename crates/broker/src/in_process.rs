//! The embedded default: bounded queues in this process, one per priority.
//!
//! Full queues refuse tickets instead of growing; the senders then find those emails in the
//! store. Nothing survives the process, which is why `is_durable` says no.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste_core::port::{Broker, Published, Ticket, TicketDelivery};
use posthaste_core::status::Priority;
use tokio::sync::Notify;

/// Among this many tickets, at least one goes to a lower priority that waits.
const FAIRNESS: u64 = 8;

/// Bounded queues in this process.
pub struct InProcessBroker {
    capacity: usize,
    queues: Mutex<Queues>,
    arrived: Notify,
}

#[derive(Default)]
struct Queues {
    by_priority: [VecDeque<Ticket>; 3],
    handed_out: u64,
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

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn index(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

impl Queues {
    fn take(&mut self, most: usize) -> Vec<TicketDelivery> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(ticket) = self.next() else { break };
            self.handed_out += 1;
            taken.push(TicketDelivery {
                ticket,
                tag: self.handed_out,
            });
        }
        taken
    }

    /// High before normal before low; now and then low or normal goes first, by turns, so that
    /// steady streams of others never starve it.
    fn next(&mut self) -> Option<Ticket> {
        let is_turn_of_others = self.handed_out % FAIRNESS == FAIRNESS - 1;
        let turn = self.handed_out / FAIRNESS;
        let order = match (is_turn_of_others, turn % 2) {
            (false, _) => [0, 1, 2],
            (true, 0) => [2, 1, 0],
            (true, _) => [1, 2, 0],
        };
        order
            .into_iter()
            .find_map(|at: usize| self.by_priority[at].pop_front())
    }
}

#[async_trait]
impl Broker for InProcessBroker {
    async fn publish(&self, tickets: Vec<Ticket>) -> Vec<Published> {
        let published = {
            let mut queues = self.queues();
            let publish = |ticket: Ticket| {
                let queue = &mut queues.by_priority[index(ticket.priority)];
                if queue.len() >= self.capacity {
                    return Published::Refused;
                }
                queue.push_back(ticket);
                Published::Confirmed
            };
            tickets.into_iter().map(publish).collect()
        };
        self.arrived.notify_one();
        published
    }

    async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
        loop {
            let taken = self.queues().take(most);
            if !taken.is_empty() || most == 0 {
                // Another receiver may be waiting for what is left.
                self.arrived.notify_one();
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    async fn acknowledge(&self, _deliveries: Vec<TicketDelivery>) {}

    fn is_durable(&self) -> bool {
        false
    }
}
