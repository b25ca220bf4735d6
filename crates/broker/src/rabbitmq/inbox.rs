//! Tickets that RabbitMQ delivered and nobody has taken yet.
//!
//! Bounded by the prefetch of each queue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::port::{Ticket, TicketDelivery};
use tokio::sync::{Notify, mpsc};

use crate::priority_queues::PriorityQueues;

/// The lower bits of our tags hold RabbitMQ's delivery tag, the upper ones the lane's number.
const DELIVERY_BITS: u32 = 40;

/// Where a delivery came from: a lane, which is one consumer on one channel, and RabbitMQ's tag.
/// Lanes are numbered over the life of the process, so a tag of an older connection stands for
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) lane: u64,
    pub(super) delivery_tag: u64,
}

impl Origin {
    const fn tag(self) -> u64 {
        (self.lane << DELIVERY_BITS) | self.delivery_tag
    }

    const fn of(tag: u64) -> Self {
        Self {
            lane: tag >> DELIVERY_BITS,
            delivery_tag: tag & ((1 << DELIVERY_BITS) - 1),
        }
    }
}

/// What to tell RabbitMQ about deliveries of a lane.
#[derive(Debug)]
pub(super) enum Settlement {
    Acknowledge(Vec<u64>),
    GiveBack(Vec<u64>),
}

struct Waiting {
    ticket: Ticket,
    origin: Origin,
    since: Instant,
}

#[derive(Default)]
struct State {
    waiting: PriorityQueues<Waiting>,
    /// Unbounded, but never more than one word about each delivery that is open.
    lanes: HashMap<u64, mpsc::UnboundedSender<Settlement>>,
    last_lane: u64,
}

/// Tickets that wait here, and the lanes they came from.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
}

impl Inbox {
    /// A new lane, and what it is to tell RabbitMQ.
    pub(super) fn open_lane(&self) -> (Lane<'_>, mpsc::UnboundedReceiver<Settlement>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.last_lane += 1;
        let number = state.last_lane;
        state.lanes.insert(number, sender);
        drop(state);
        let lane = Lane {
            number,
            inbox: self,
        };
        (lane, receiver)
    }

    /// Takes up to so many tickets; waits until there is one.
    pub(super) async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
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

    fn take(&self, most: usize) -> Vec<TicketDelivery> {
        let mut state = self.state();
        let next = || state.waiting.take_next();
        let taken = std::iter::from_fn(next).take(most);
        let delivery = |waiting: Waiting| TicketDelivery {
            ticket: waiting.ticket,
            tag: waiting.origin.tag(),
        };
        taken.map(delivery).collect()
    }

    /// Passes on to the lanes what is to be said about deliveries.
    pub(super) fn settle(
        &self,
        deliveries: &[TicketDelivery],
        settlement: impl Fn(Vec<u64>) -> Settlement,
    ) {
        let mut by_lane: HashMap<u64, Vec<u64>> = HashMap::new();
        for delivery in deliveries {
            let origin = Origin::of(delivery.tag);
            by_lane
                .entry(origin.lane)
                .or_default()
                .push(origin.delivery_tag);
        }
        let state = self.state();
        for (lane, delivery_tags) in by_lane {
            // A lane that is gone has given everything back already.
            if let Some(sender) = state.lanes.get(&lane) {
                let _ = sender.send(settlement(delivery_tags));
            }
        }
    }

    /// How many tickets wait here.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inbox as one consumer sees it. When it is dropped its tickets are gone from here: the
/// server has them back.
pub(super) struct Lane<'a> {
    number: u64,
    inbox: &'a Inbox,
}

impl Lane<'_> {
    /// Puts a ticket where it can be received.
    pub(super) fn put(&self, ticket: Ticket, delivery_tag: u64) {
        let origin = Origin {
            lane: self.number,
            delivery_tag,
        };
        let (priority, since) = (ticket.priority, Instant::now());
        let waiting = Waiting {
            ticket,
            origin,
            since,
        };
        self.inbox.state().waiting.push_back(priority, waiting);
        self.inbox.arrived.notify_one();
    }

    /// Takes out the lane's tickets that wait for longer than this.
    pub(super) fn take_older(&self, age: Duration) -> Vec<u64> {
        self.take_out(|waiting| waiting.since.elapsed() > age)
    }

    fn take_out(&self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        self.inbox.state().waiting.retain(|waiting| {
            let take = waiting.origin.lane == self.number && is_wanted(waiting);
            if take {
                taken.push(waiting.origin.delivery_tag);
            }
            !take
        });
        taken
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.take_out(|_| true);
        self.inbox.state().lanes.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_where_the_delivery_came_from() {
        let origin = Origin {
            lane: 4_711,
            delivery_tag: 1_099_511_627_775,
        };
        assert_eq!(Origin::of(origin.tag()), origin);
    }
}
