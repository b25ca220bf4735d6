//! The line of new emails.
//!
//! They come in one flush at a time, and whatever comes meanwhile comes along with the next: two at a
//! time would be half as large, and each of them costs as much as five emails before it has taken in
//! one. Only when so many wait that another flush is worth it anyway, it does not wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::batch::Batch;
use super::lane::{Lane, Shared};
use super::writer::{Job, Jobs};

/// So many emails are worth a flush while another one is under way.
const ENOUGH: usize = 96;
/// After so long, others no longer wait for a flush that is held up: the key of one of its emails may
/// be in a transaction of an application's that is still open.
const HELD_UP: Duration = Duration::from_millis(100);
/// So many flushes there may be beside those whose turn it is.
const HELD_UP_AT_ONCE: usize = 2;

/// Whose turn it is to take new emails in.
pub(super) struct Turns {
    free: Semaphore,
    count: u32,
}

impl Turns {
    /// So many may be under way if it is worth it.
    pub(super) fn new(count: u32) -> Self {
        let count = count.max(1);
        Self {
            free: Semaphore::new(count as usize),
            count,
        }
    }

    /// How many flushes there may be in all.
    pub(super) const fn lanes(&self) -> usize {
        self.count as usize + HELD_UP_AT_ONCE
    }

    /// Waits until nothing else is under way, for one who has a turn.
    async fn alone(&self) {
        drop(self.free.acquire_many(self.count - 1).await);
    }
}

impl Shared {
    /// The line of new emails.
    pub(super) fn line_of_new(self: &Arc<Self>) -> Jobs {
        self.lanes(self.turns.lanes(), |lane| async move {
            while let Some((jobs, turn)) = lane.gather_new().await {
                let mut settling = pin!(lane.settle(jobs));
                if timeout(HELD_UP, settling.as_mut()).await.is_err() {
                    drop(turn);
                    settling.await;
                }
            }
        })
    }
}

impl Lane {
    /// The emails of the next flush, when it is its turn. `None` when there will be no more.
    async fn gather_new(&self) -> Option<(Vec<Box<dyn Job>>, SemaphorePermit<'_>)> {
        let turns = &self.shared.turns;
        let mut queue = self.queue.lock().await;
        let turn = turns.free.acquire().await.ok()?;
        let mut batch = Batch::default();
        let mut next = queue.recv().await;
        while let Some(job) = next {
            // It is about nothing that another one is about: as long as there is room, all come along.
            let refused = batch.take(job);
            debug_assert!(refused.is_none(), "a new email stays behind");
            if !batch.has_room() {
                break;
            }
            next = match queue.try_recv() {
                Ok(job) => Some(job),
                Err(_) if batch.jobs.len() >= ENOUGH => None,
                Err(_) => tokio::select! {
                    biased;
                    () = turns.alone() => None,
                    job = queue.recv() => job,
                },
            };
        }
        (!batch.jobs.is_empty()).then_some((batch.jobs, turn))
    }
}
