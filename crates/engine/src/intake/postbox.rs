//! Takes tickets to a broker that others share, behind the caller's back.
//!
//! The answer to a caller waits for the store only. Tickets that gather while a publish is under
//! way share the next one, and when the broker is slow nobody but they has to wait.

use std::sync::Arc;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Broker, Lease, Published, Route, SharedStore, Ticket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// At most this many tickets wait here; what does not fit waits in the store.
const ROOM: usize = 50_000;
/// At most this many tickets are published together.
const BATCH: usize = 500;
/// How many publishes may be under way.
const AT_ONCE: usize = 4;

/// Tells the senders of new emails.
pub(super) struct Postbox {
    store: SharedStore,
    broker: Arc<dyn Broker>,
    tickets: mpsc::UnboundedSender<Posted>,
    room: Arc<Semaphore>,
}

struct Posted {
    ticket: Ticket,
    _room: OwnedSemaphorePermit,
}

impl Postbox {
    /// Must be called within a tokio runtime.
    pub(super) fn new(store: SharedStore, broker: Arc<dyn Broker>) -> Self {
        let (tickets, posted) = mpsc::unbounded_channel();
        if broker.is_shared() {
            tokio::spawn(empty(Arc::clone(&store), Arc::clone(&broker), posted));
        }
        Self {
            store,
            broker,
            tickets,
            room: Arc::new(Semaphore::new(ROOM)),
        }
    }

    /// Publishes tickets, or sees to it that they will be.
    pub(super) async fn post(&self, tickets: Vec<Ticket>) {
        // In this process nothing has to be waited for.
        if !self.broker.is_shared() {
            publish(&self.store, &*self.broker, tickets).await;
            return;
        }
        let mut refused = Vec::new();
        for ticket in tickets {
            let id = ticket.email_id;
            match Arc::clone(&self.room).try_acquire_owned() {
                Ok(room) => {
                    let posted = Posted {
                        ticket,
                        _room: room,
                    };
                    refused.extend(self.tickets.send(posted).is_err().then_some(id));
                }
                Err(_) => refused.push(id),
            }
        }
        mark(&self.store, refused).await;
    }

    /// Waits until nothing waits here any more.
    pub(super) async fn emptied(&self) {
        let all = u32::try_from(ROOM).unwrap_or(u32::MAX);
        let _ = self.room.acquire_many(all).await;
    }
}

async fn empty(
    store: SharedStore,
    broker: Arc<dyn Broker>,
    mut posted: mpsc::UnboundedReceiver<Posted>,
) {
    let under_way = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(turn) = Arc::clone(&under_way).acquire_owned().await else {
            return;
        };
        let mut batch = Vec::new();
        if posted.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let (store, broker) = (Arc::clone(&store), Arc::clone(&broker));
        tokio::spawn(async move {
            let tickets = batch.iter().map(|posted| posted.ticket.clone()).collect();
            publish(&store, &*broker, tickets).await;
            drop((batch, turn));
        });
    }
}

/// Failing at it is harmless: the store knows, and senders look there.
async fn publish(store: &SharedStore, broker: &dyn Broker, tickets: Vec<Ticket>) {
    let ids: Vec<EmailId> = tickets.iter().map(|ticket| ticket.email_id).collect();
    posthaste_core::failpoint::hit("intake.before_publish");
    let published = broker.publish(Route::First, tickets).await;
    posthaste_core::failpoint::hit("intake.after_publish");
    let refused = ids
        .into_iter()
        .zip(published)
        .filter_map(|(id, published)| (published == Published::Refused).then_some(id));
    mark(store, refused.collect()).await;
}

/// The token of an email that was just accepted.
const NEW: i64 = 0;

/// Says that emails have no ticket.
async fn mark(store: &SharedStore, refused: Vec<EmailId>) {
    let refused: Vec<Lease> = refused
        .into_iter()
        .map(|id| Lease { id, token: NEW })
        .collect();
    if !refused.is_empty()
        && let Err(error) = store.mark_queued(Vec::new(), refused).await
    {
        tracing::warn!(%error, "tickets were refused and could not be marked; senders find the emails later");
    }
}
