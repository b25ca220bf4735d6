//! What RabbitMQ delivered and nobody has taken yet.
//!
//! Bounded by the prefetch of each queue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::status::Priority;
use tokio::sync::{Notify, mpsc};

use crate::priority_queues::PriorityQueues;

/// The lower bits of our tags hold RabbitMQ's delivery tag, the upper ones the number of the
/// place.
const DELIVERY_BITS: u32 = 40;

/// Where a delivery came from: a place, which is one consumer on one channel, and RabbitMQ's tag.
/// Places are numbered over the life of the process, so a tag of an older connection stands for
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) place: u64,
    pub(super) delivery_tag: u64,
}

impl Origin {
    const fn tag(self) -> u64 {
        (self.place << DELIVERY_BITS) | self.delivery_tag
    }

    const fn of(tag: u64) -> Self {
        Self {
            place: tag >> DELIVERY_BITS,
            delivery_tag: tag & ((1 << DELIVERY_BITS) - 1),
        }
    }
}

/// What to tell RabbitMQ about deliveries of a place.
#[derive(Debug)]
pub(super) enum Settlement {
    Acknowledge(Vec<u64>),
    GiveBack(Vec<u64>),
}

struct Waiting<T> {
    item: T,
    origin: Origin,
    since: Instant,
}

struct State<T> {
    waiting: PriorityQueues<Waiting<T>>,
    /// Unbounded, but never more than one word about each delivery that is open.
    places: HashMap<u64, mpsc::UnboundedSender<Settlement>>,
    last_place: u64,
}

/// What waits here, and the places it came from.
pub(super) struct Inbox<T> {
    state: Mutex<State<T>>,
    arrived: Notify,
}

impl<T> Inbox<T> {
    /// Nothing waits yet.
    pub(super) fn new() -> Self {
        let state = State {
            waiting: PriorityQueues::default(),
            places: HashMap::new(),
            last_place: 0,
        };
        Self {
            state: Mutex::new(state),
            arrived: Notify::new(),
        }
    }

    /// A new place, and what it is to tell RabbitMQ.
    pub(super) fn open_place(&self) -> (Place<'_, T>, mpsc::UnboundedReceiver<Settlement>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.last_place += 1;
        let number = state.last_place;
        state.places.insert(number, sender);
        drop(state);
        let place = Place {
            number,
            inbox: self,
        };
        (place, receiver)
    }

    /// Takes up to so many, each with its tag; waits until there is one.
    pub(super) async fn receive(&self, most: usize) -> Vec<(T, u64)> {
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

    fn take(&self, most: usize) -> Vec<(T, u64)> {
        let mut state = self.state();
        let next = || state.waiting.take_next();
        let taken = std::iter::from_fn(next).take(most);
        taken
            .map(|waiting| (waiting.item, waiting.origin.tag()))
            .collect()
    }

    /// Passes on to the places what is to be said about deliveries.
    pub(super) fn settle(
        &self,
        tags: impl IntoIterator<Item = u64>,
        settlement: impl Fn(Vec<u64>) -> Settlement,
    ) {
        let mut by_place: HashMap<u64, Vec<u64>> = HashMap::new();
        for origin in tags.into_iter().map(Origin::of) {
            let tags = by_place.entry(origin.place).or_default();
            tags.push(origin.delivery_tag);
        }
        let state = self.state();
        for (place, delivery_tags) in by_place {
            // A place that is gone has given everything back already.
            if let Some(sender) = state.places.get(&place) {
                let _ = sender.send(settlement(delivery_tags));
            }
        }
    }

    /// How many wait here.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inbox as one consumer sees it. When it is dropped, what came from it is gone from here:
/// the server has it back.
pub(super) struct Place<'a, T> {
    number: u64,
    inbox: &'a Inbox<T>,
}

impl<T> Place<'_, T> {
    /// Puts something where it can be received.
    pub(super) fn put(&self, priority: Priority, item: T, delivery_tag: u64) {
        let origin = Origin {
            place: self.number,
            delivery_tag,
        };
        let waiting = Waiting {
            item,
            origin,
            since: Instant::now(),
        };
        self.inbox.state().waiting.push_back(priority, waiting);
        self.inbox.arrived.notify_one();
    }

    /// Takes out what came from here and waits for longer than this.
    pub(super) fn take_older(&self, age: Duration) -> Vec<u64> {
        self.take_out(|waiting| waiting.since.elapsed() > age)
    }

    fn take_out(&self, is_wanted: impl Fn(&Waiting<T>) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        self.inbox.state().waiting.retain(|waiting| {
            let take = waiting.origin.place == self.number && is_wanted(waiting);
            if take {
                taken.push(waiting.origin.delivery_tag);
            }
            !take
        });
        taken
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.take_out(|_| true);
        self.inbox.state().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_where_the_delivery_came_from() {
        let origin = Origin {
            place: 4_711,
            delivery_tag: 1_099_511_627_775,
        };
        assert_eq!(Origin::of(origin.tag()), origin);
    }
}
