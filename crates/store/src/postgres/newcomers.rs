//! The line of new emails.
//!
//! They have one connection, and the next statement waits at the server while one is carried out: the
//! server never waits for us. With a connection for each, the two would be in each other's way, and
//! smaller.
//!
//! A statement costs the server as much as five emails do. So the next one is sent ahead only if it is
//! large enough to be worth it; otherwise whatever comes until the last one is answered comes along.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::batch::Batch;
use super::lane::{Lane, Shared};
use super::writer::{Job, Jobs};

/// So many statements are under way: one is carried out, one waits for it.
pub(super) const TURNS: usize = 2;
/// So many emails are worth a statement while another one is under way.
const ENOUGH: usize = 128;
/// After so long, others no longer wait for one that is held up: its key may be in a transaction of an
/// application's that is still open.
const HELD_UP: Duration = Duration::from_millis(100);
/// So many flushes there may be, with those that are held up.
pub(super) const LANES: usize = 4;

impl Shared {
    /// The line of new emails.
    pub(super) fn line_of_new(self: &Arc<Self>) -> Jobs {
        self.lanes(LANES, |lane| async move {
            while let Some((jobs, turn)) = lane.gather_new().await {
                let mut settling = pin!(lane.settle(jobs));
                if timeout(HELD_UP, settling.as_mut()).await.is_err() {
                    lane.shared.together.move_on().await;
                    drop(turn);
                    settling.await;
                }
            }
        })
    }
}

impl Lane {
    /// The emails of the next statement, when it is its turn. `None` when there will be no more.
    async fn gather_new(&self) -> Option<(Vec<Box<dyn Job>>, SemaphorePermit<'_>)> {
        let mut queue = self.queue.lock().await;
        let turn = self.shared.turns.acquire().await.ok()?;
        let mut batch = Batch::default();
        let mut next = queue.recv().await;
        // New emails are about nothing that others are about: as long as there is room, all come along.
        while let Some(job) = next {
            batch.take(job);
            while batch.has_room()
                && let Ok(job) = queue.try_recv()
            {
                batch.take(job);
            }
            if batch.jobs.len() >= ENOUGH || !batch.has_room() {
                break;
            }
            next = tokio::select! {
                biased;
                // All turns are ours: nothing else is under way.
                _ = self.shared.turns.acquire() => None,
                job = queue.recv() => job,
            };
        }
        (!batch.jobs.is_empty()).then_some((batch.jobs, turn))
    }
}
