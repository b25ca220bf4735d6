//! Lets parked emails go when their ways out take mail again.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::port::{Pick, Started, Unticketed};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FIRST_REST, LONGEST_REST, Sender};
use crate::scheduler::note_dead;
use crate::ways::LOOKS_EVERY;

/// How often this sender says that it is there.
const SHOWS_ITSELF_EVERY: Duration = Duration::from_secs(10);
/// For so long one round waits for others to make room.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two rounds there is at least this time, so that each finds more to do.
const BREATH: Duration = Duration::from_millis(5);

impl Sender {
    /// Looks how the ways out do, and lets parked emails go, until shutdown.
    pub(super) async fn watch_ways(self: Arc<Self>, shutdown: CancellationToken) {
        let mut look_at = Instant::now();
        let mut show_at = Instant::now();
        let mut rest = FIRST_REST;
        loop {
            let now = Instant::now();
            if now >= look_at {
                let shows =
                    self.config.takes_waiting && now >= show_at && self.ways.shares_limits();
                let sender = shows.then_some(self.config.worker.as_str());
                match self.ways.look(&self.store, sender).await {
                    Ok(()) => {
                        look_at = now + LOOKS_EVERY;
                        rest = FIRST_REST;
                        if shows {
                            show_at = now + SHOWS_ITSELF_EVERY;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not look at the ways out; will try again");
                        look_at = now + rest;
                        rest = (rest * 2).min(LONGEST_REST);
                    }
                }
            }
            let mut again_in = look_at.saturating_duration_since(Instant::now());
            if self.config.takes_waiting {
                let ready = self.ways.ready(self.store.now());
                again_in = again_in.min(ready.again_in);
                for (waiting_for, room) in ready.parked {
                    let Some(is_more) = self.let_go(&waiting_for, room).await else {
                        break;
                    };
                    if is_more {
                        again_in = Duration::ZERO;
                    }
                }
            }
            tokio::time::sleep(BREATH).await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.ways.freed() => {}
                () = tokio::time::sleep(again_in) => {}
            }
        }
    }

    /// Begins attempts of emails that wait for these ways; whether there may be more. `None`: there
    /// is no room in this process.
    async fn let_go(self: &Arc<Self>, waiting_for: &str, room: Pick) -> Option<bool> {
        let permits = self.permits_for(room.most()).await;
        if permits.is_empty() {
            return None;
        }
        let (asked, most) = (Instant::now(), permits.len());
        let budgets = self.policies.budgets();
        let begun = self.store.begin_parked(
            waiting_for,
            match room {
                Pick::UpTo(_) => Pick::UpTo(most),
                Pick::Longest => Pick::Longest,
            },
            &self.config.worker,
            self.config.lease,
            &budgets,
        );
        match begun.await {
            Ok(Unticketed { started, dead }) => {
                dead.iter().for_each(|due| note_dead(&self.metrics, due));
                let found = started.len() + dead.len();
                if found < most {
                    self.ways.is_drained(waiting_for);
                }
                self.spawn_parked(started, asked, permits);
                Some(found == most)
            }
            Err(error) => {
                tracing::warn!(%error, waiting_for, "could not let parked emails go; will try again");
                Some(false)
            }
        }
    }

    fn spawn_parked(
        self: &Arc<Self>,
        started: Vec<Started>,
        asked: Instant,
        permits: Vec<OwnedSemaphorePermit>,
    ) {
        for (started, permit) in started.into_iter().zip(permits) {
            self.spawn_attempt(Box::new(started), asked, permit, true);
        }
    }

    /// Up to so many permits; none if all are taken for long.
    async fn permits_for(&self, most: usize) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        let first = Arc::clone(&self.parked_permits).acquire_owned();
        if let Ok(Ok(first)) = tokio::time::timeout(PATIENCE, first).await {
            permits.push(first);
        }
        while !permits.is_empty()
            && permits.len() < most
            && let Ok(more) = Arc::clone(&self.parked_permits).try_acquire_owned()
        {
            permits.push(more);
        }
        permits
    }
}
