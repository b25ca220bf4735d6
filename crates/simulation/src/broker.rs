//! A queue of tickets that loses, doubles, delays and reorders them, refuses some, and forgets that
//! others were acknowledged. A ticket is a hint: whatever it does, no promise may depend on it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{Broker, DeadNotice, Published, Route, Ticket, TicketDelivery};
use posthaste_core::status::Priority;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::nature::Nature;
use crate::plan::BrokerRates;
use crate::process::Process;

/// The queue, which is a process of its own or dies with the one that holds it.
pub(crate) struct Queue {
    nature: Arc<Nature>,
    rates: BrokerRates,
    /// Whether it confirms every ticket and delivers none.
    is_black_hole: bool,
    tickets: Mutex<Tickets>,
    arrived: Notify,
}

#[derive(Default)]
struct Tickets {
    waiting: VecDeque<Ticket>,
    /// Taken and not acknowledged, by their tags; and by whom.
    taken: BTreeMap<u64, (String, Ticket)>,
    next_tag: u64,
    away_until: Option<Instant>,
}

impl Queue {
    pub(crate) fn new(nature: Arc<Nature>, rates: BrokerRates, is_black_hole: bool) -> Arc<Self> {
        Arc::new(Self {
            nature,
            rates,
            is_black_hole,
            tickets: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_away(&self) -> bool {
        let until = self.tickets().away_until;
        until.is_some_and(|until| until > Instant::now())
    }

    /// Nobody reaches it for this long.
    pub(crate) fn go_away(&self, time: Duration) {
        self.tickets().away_until = Some(Instant::now() + time);
    }

    /// It can be reached again.
    pub(crate) fn come_back(&self) {
        self.tickets().away_until = None;
        self.arrived.notify_waiters();
    }

    /// All tickets are gone.
    pub(crate) fn purge(&self) {
        self.tickets().waiting.clear();
    }

    /// A process died: what it had taken comes again.
    pub(crate) fn bury(&self, process: &Process) {
        let mut tickets = self.tickets();
        let taken = std::mem::take(&mut tickets.taken);
        for (tag, (by, ticket)) in taken {
            if by == process.name {
                tickets.waiting.push_back(ticket);
            } else {
                tickets.taken.insert(tag, (by, ticket));
            }
        }
        drop(tickets);
        self.arrived.notify_waiters();
    }

    /// Puts a ticket there, wherever it came from.
    pub(crate) fn put(&self, ticket: Ticket, first: bool) {
        let mut tickets = self.tickets();
        if first {
            tickets.waiting.push_front(ticket);
        } else {
            tickets.waiting.push_back(ticket);
        }
        drop(tickets);
        self.arrived.notify_waiters();
    }

    fn publish(self: &Arc<Self>, ticket: Ticket) -> Published {
        let (nature, rates) = (&self.nature, self.rates);
        if nature.strikes("broker: ticket refused", rates.refuses) {
            return Published::Refused;
        }
        if self.is_black_hole || nature.strikes("broker: ticket lost", rates.loses) {
            return Published::Confirmed;
        }
        if nature.strikes("broker: ticket doubled", rates.doubles) {
            self.put(ticket.clone(), false);
        }
        if nature.strikes("broker: ticket delayed", rates.delays) {
            let (queue, time) = (
                Arc::clone(self),
                nature.draw(|random| random.milliseconds(10, 20_000)),
            );
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                queue.put(ticket, false);
            });
        } else {
            let first = nature.strikes("broker: ticket out of order", rates.reorders);
            self.put(ticket, first);
        }
        Published::Confirmed
    }

    /// Hands out tickets, high priority first.
    fn take(&self, most: usize, process: &Process) -> Vec<TicketDelivery> {
        let mut tickets = self.tickets();
        let mut taken = Vec::new();
        while taken.len() < most {
            let is_high = |ticket: &Ticket| ticket.priority == Priority::High;
            let at = tickets.waiting.iter().position(is_high).unwrap_or(0);
            let Some(ticket) = tickets.waiting.remove(at) else {
                break;
            };
            let tag = tickets.next_tag;
            tickets.next_tag += 1;
            let holder = (process.name.clone(), ticket.clone());
            tickets.taken.insert(tag, holder);
            taken.push(TicketDelivery { ticket, tag });
        }
        taken
    }
}

/// The queue as one process sees it.
pub(crate) struct MemoryBroker {
    queue: Arc<Queue>,
    process: Arc<Process>,
    is_shared: bool,
}

impl MemoryBroker {
    pub(crate) fn new(queue: Arc<Queue>, process: Arc<Process>, is_shared: bool) -> Self {
        Self {
            queue,
            process,
            is_shared,
        }
    }

    /// A call is on its way.
    async fn travel(&self, what: &'static str) {
        self.process.point(what).await;
        if self.is_shared {
            let time = self.queue.nature.draw(|random| random.milliseconds(0, 3));
            tokio::time::sleep(time).await;
        }
        self.process.alive().await;
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    async fn publish(&self, _: Route, tickets: Vec<Ticket>) -> Vec<Published> {
        self.travel("publish").await;
        let away = self.queue.is_away();
        let published = tickets.into_iter().map(|ticket| {
            let (who, key) = (&self.process.name, ticket.message_key.clone());
            let published = if away {
                Published::Refused
            } else {
                self.queue.publish(ticket)
            };
            let say = || format!("{key:<4} publish: {published:?}");
            self.queue.nature.say(who, say);
            published
        });
        let published = published.collect();
        self.process.point("publish").await;
        published
    }

    async fn receive(&self, most: usize) -> Vec<TicketDelivery> {
        loop {
            let arrived = self.queue.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            self.process.awake().await;
            if !self.queue.is_away() {
                // From here to the answer nothing is awaited: whoever gives up loses nothing.
                let taken = self.queue.take(most, &self.process);
                if !taken.is_empty() {
                    return taken;
                }
            }
            arrived.await;
        }
    }

    async fn acknowledge(&self, deliveries: Vec<TicketDelivery>) {
        self.travel("acknowledge").await;
        for TicketDelivery { tag, .. } in deliveries {
            let rate = self.queue.rates.forgets;
            let forgotten = self
                .queue
                .nature
                .strikes("broker: acknowledgement lost", rate);
            let taken = self.queue.tickets().taken.remove(&tag);
            if let (true, Some((_, ticket))) = (forgotten, taken) {
                self.queue.put(ticket, false);
            }
        }
        self.process.point("acknowledge").await;
    }

    async fn give_back(&self, deliveries: Vec<TicketDelivery>) {
        self.travel("give back").await;
        for TicketDelivery { tag, ticket } in deliveries {
            self.queue.tickets().taken.remove(&tag);
            self.queue.put(ticket, false);
        }
    }

    async fn announce(&self, notices: Vec<DeadNotice>) -> Vec<Published> {
        self.travel("announce").await;
        let rate = self.queue.rates.refuses;
        let announced = notices.iter().map(|_| {
            let refused = self.queue.nature.strikes("broker: news refused", rate);
            if refused || self.queue.is_away() {
                Published::Refused
            } else {
                Published::Confirmed
            }
        });
        let announced = announced.collect();
        self.process.point("announce").await;
        announced
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn trouble(&self) -> Option<String> {
        self.queue.is_away().then(|| "it is away".to_owned())
    }
}
