//! Keeps connections open between messages.
//!
//! There are never more connections than allowed: whoever uses one, and whoever says goodbye on
//! one, holds a slot; unused ones never outnumber the free slots.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::extensions::Extensions;
use super::slots::{Announcement, Next, Slot, Slots, Turn};

/// No connection is kept unused for longer, whatever the configuration says.
const LONGEST_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The connections of one transport.
pub(super) struct Pool {
    slots: Arc<Slots>,
    idle_limit: Duration,
    messages_per_connection: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Unused connections, the longest unused first.
    idle: VecDeque<Idle>,
    /// What the server offered on the connection that came back last.
    offers: Option<Extensions>,
    /// Whether the server did not take in what was announced.
    is_deaf: bool,
    /// Whether someone watches over the idle limit.
    is_watched: bool,
    /// Connections that are being closed.
    farewells: JoinSet<()>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl State {
    fn say_goodbye(&mut self, slot: Option<Slot>, connection: Connection) {
        while self.farewells.try_join_next().is_some() {}
        self.farewells.spawn(async move {
            connection.quit().await;
            drop(slot);
        });
    }
}

impl Pool {
    pub(super) fn new(
        connections: usize,
        idle_limit: Duration,
        messages_per_connection: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            slots: Slots::new(connections),
            idle_limit: idle_limit.min(LONGEST_IDLE),
            messages_per_connection,
            state: Mutex::default(),
        })
    }

    /// Waits for a slot. This ends, because every use of a connection has deadlines.
    pub(super) async fn slot(&self) -> Slot {
        match self.slots.wait(None).await {
            Turn::Slot(slot) | Turn::Announced(_, slot) => slot,
        }
    }

    /// Waits for a slot, too. If that takes a while, `announce` says what comes first, for a server
    /// that offers this, so that a connection can say it before it is handed over.
    pub(super) async fn turn(&self, announce: impl FnOnce(&Extensions) -> Option<Vec<u8>>) -> Turn {
        if let Some(slot) = self.slots.try_take() {
            return Turn::Slot(slot);
        }
        let offers = {
            let state = self.state();
            state.offers.filter(|_| !state.is_deaf)
        };
        let announcement = offers.and_then(|offers| {
            let commands = announce(&offers)?;
            Some(Announcement { commands, offers })
        });
        self.slots.wait(announcement).await
    }

    /// Whoever is to use this connection next, if that is known already.
    pub(super) fn next_on(&self, connection: &Connection) -> Option<Next> {
        if self.is_worn(connection) {
            return None;
        }
        self.slots.take_next(&connection.extensions)
    }

    /// The server does not take in what is announced: nobody is any more.
    pub(super) fn announce_no_more(&self) {
        self.state().is_deaf = true;
    }

    /// Whether this connection has carried all that it is to carry.
    fn is_worn(&self, connection: &Connection) -> bool {
        connection.messages >= self.messages_per_connection || self.idle_limit.is_zero()
    }

    /// An unused connection that seems to be alive: the last one used, so that the others reach
    /// the idle limit when there is little to do.
    pub(super) async fn take_idle(&self, _slot: &Slot) -> Option<Connection> {
        loop {
            let idle = self.state().idle.pop_back()?;
            let mut connection = idle.connection;
            if idle.since.elapsed() < self.idle_limit && connection.interruption().await.is_none() {
                return Some(connection);
            }
        }
    }

    /// Makes room for one connection that does not come from the pool.
    pub(super) fn make_room(&self, _slot: &Slot) {
        let mut state = self.state();
        if state.idle.len() > self.slots.free() {
            state.idle.pop_front();
        }
    }

    /// Takes a connection back that can be used again.
    pub(super) fn put(self: &Arc<Self>, slot: Slot, connection: Connection) {
        if self.is_worn(&connection) {
            self.retire(slot, connection);
            return;
        }
        let mut state = self.state();
        state.offers = Some(connection.extensions);
        state.idle.push_back(Idle {
            connection,
            since: Instant::now(),
        });
        if !state.is_watched {
            state.is_watched = true;
            tokio::spawn(watch(
                Arc::downgrade(self),
                Instant::now() + self.idle_limit,
            ));
        }
        // The slot is given back only now: who gets it shall find the connection.
        drop(state);
        drop(slot);
    }

    /// Says goodbye in the background. The slot is free when that is over.
    pub(super) fn retire(&self, slot: Slot, connection: Connection) {
        self.state().say_goodbye(Some(slot), connection);
    }

    /// Closes all unused connections, and waits for the goodbyes.
    pub(super) async fn close(&self) {
        let mut farewells = {
            let mut state = self.state();
            while let Some(idle) = state.idle.pop_front() {
                // Without one if they are all taken.
                state.say_goodbye(self.slots.try_take(), idle.connection);
            }
            std::mem::take(&mut state.farewells)
        };
        while farewells.join_next().await.is_some() {}
    }

    /// Retires what was unused for too long; when to look again, if anything is left.
    fn expire(&self) -> Option<Instant> {
        let mut state = self.state();
        let now = Instant::now();
        while let Some(oldest) = state.idle.front() {
            let due = oldest.since + self.idle_limit;
            if due > now {
                return Some(due);
            }
            let Some(slot) = self.slots.try_take() else {
                // Those who have them are about to come for these connections.
                return Some(now + self.idle_limit);
            };
            if let Some(oldest) = state.idle.pop_front() {
                state.say_goodbye(Some(slot), oldest.connection);
            }
        }
        state.is_watched = false;
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches over the idle limit, until nothing is idle any more.
async fn watch(pool: Weak<Pool>, mut next: Instant) {
    loop {
        sleep_until(next).await;
        let Some(pool) = pool.upgrade() else { return };
        let Some(later) = pool.expire() else { return };
        next = later;
    }
}
