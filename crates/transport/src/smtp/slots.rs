//! How many connections there may be, and who is next.
//!
//! Slots are given out in the order in which they were asked for. Who waits leaves behind what it
//! will say first, so that a connection can say it together with the final dot before it, and is
//! handed that connection: one write and one wake-up of the server instead of two.
//!
//! A slot that is dropped goes to the next in line, and so does one that was handed to somebody who
//! has gone: nothing in here can be lost by dropping it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::connection::Connection;
use super::extensions::Extensions;

/// The right to have one connection open.
pub(super) struct Slot(Option<Arc<Slots>>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.give_back();
        }
    }
}

/// What waiting ends with.
pub(super) enum Turn {
    /// A slot. Whether there is a connection for it is another matter.
    Slot(Slot),
    /// A slot with a connection on which the announcement was made; its replies come next.
    /// In this order: whoever gets the slot must not find the connection still open.
    Announced(Box<Connection>, Slot),
}

/// Everything that is said before a message: MAIL, RCPT and DATA.
pub(super) struct Announcement {
    /// The commands.
    pub(super) commands: Vec<u8>,
    /// What a server must offer for them to be the right ones.
    pub(super) offers: Extensions,
}

struct Waiting {
    turn: oneshot::Sender<Turn>,
    announcement: Option<Announcement>,
}

#[derive(Default)]
struct Line {
    /// Slots that nobody has. As long as there are any, nobody waits.
    free: usize,
    /// Who has waited longest comes first.
    waiting: VecDeque<Waiting>,
}

/// The slots of one transport.
pub(super) struct Slots {
    line: Mutex<Line>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        let line = Line {
            free: count,
            ..Line::default()
        };
        Arc::new(Self {
            line: Mutex::new(line),
        })
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.line().free
    }

    /// A slot without waiting, if one is free.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut line = self.line();
        line.free = line.free.checked_sub(1)?;
        Some(Slot(Some(Arc::clone(self))))
    }

    /// Waits for a slot.
    pub(super) async fn wait(self: &Arc<Self>, announcement: Option<Announcement>) -> Turn {
        let mut wait = {
            let mut line = self.line();
            if line.free > 0 {
                line.free -= 1;
                return Turn::Slot(Slot(Some(Arc::clone(self))));
            }
            let (turn, receiver) = oneshot::channel();
            line.waiting.push_back(Waiting { turn, announcement });
            Wait {
                slots: self,
                turn: receiver,
                is_over: false,
            }
        };
        let turn = (&mut wait.turn).await;
        wait.is_over = true;
        // Whoever is taken out of the line is given a turn.
        turn.unwrap_or(Turn::Slot(Slot(None)))
    }

    /// Takes out whoever has waited longest, if what it will say is right for a server that offers
    /// this.
    pub(super) fn take_next(self: &Arc<Self>, offers: &Extensions) -> Option<Next> {
        let mut line = self.line();
        let first = line.waiting.front()?;
        let announcement = first.announcement.as_ref()?;
        if announcement.offers != *offers || first.turn.is_closed() {
            return None;
        }
        let waiting = line.waiting.pop_front();
        drop(line);
        Some(Next {
            slots: Arc::clone(self),
            waiting,
        })
    }

    fn give_back(self: Arc<Self>) {
        let next = {
            let mut line = self.line();
            let next = line.waiting.pop_front();
            if next.is_none() {
                line.free += 1;
            }
            next
        };
        if let Some(next) = next {
            // If it has gone meanwhile, the slot comes back here and goes to the one after it.
            let _ = next.turn.send(Turn::Slot(Slot(Some(self))));
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing in here panics half-way through a change.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the line.
struct Wait<'a> {
    slots: &'a Slots,
    turn: oneshot::Receiver<Turn>,
    is_over: bool,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.turn.close();
            let mut line = self.slots.line();
            line.waiting.retain(|waiting| !waiting.turn.is_closed());
        }
    }
}

/// The next in line, while its announcement is being made. Dropped, it stands first again.
pub(super) struct Next {
    slots: Arc<Slots>,
    waiting: Option<Waiting>,
}

impl Next {
    /// What is to be said for it.
    pub(super) fn commands(&self) -> &[u8] {
        let waiting = self.waiting.as_ref();
        let announcement = waiting.and_then(|waiting| waiting.announcement.as_ref());
        announcement.map_or(&[], |announcement| &announcement.commands)
    }

    /// Hands over the connection on which its commands were said. If it has gone meanwhile, the
    /// connection ends and the slot goes to the one after it.
    pub(super) fn hand_over(mut self, connection: Connection, slot: Slot) {
        if let Some(waiting) = self.waiting.take() {
            let turn = Turn::Announced(Box::new(connection), slot);
            let _ = waiting.turn.send(turn);
        }
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let mut line = self.slots.line();
        if line.free == 0 {
            line.waiting.push_front(waiting);
            return;
        }
        // One became free while nobody else stood in line.
        line.free -= 1;
        drop(line);
        let slot = Slot(Some(Arc::clone(&self.slots)));
        let _ = waiting.turn.send(Turn::Slot(slot));
    }
}
