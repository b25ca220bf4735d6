//! Keeps the leases of all attempts under way, in one batch every third of the lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Lease, SharedStore};
use tokio::time::Instant;

/// Keeps leases.
pub(super) struct LeaseKeeper {
    store: SharedStore,
    lease: Duration,
    held: Mutex<HashMap<EmailId, Entry>>,
}

struct Entry {
    token: i64,
    /// By monotonic time, counted from before the store was asked: never too optimistic.
    until: Instant,
}

/// A lease that is renewed until this is dropped.
pub(super) struct Held {
    keeper: Arc<LeaseKeeper>,
    /// Which one.
    pub(super) lease: Lease,
}

impl LeaseKeeper {
    pub(super) fn new(store: SharedStore, lease: Duration) -> Self {
        Self {
            store,
            lease,
            held: Mutex::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<EmailId, Entry>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a lease that the store was asked for at `asked`.
    pub(super) fn hold(self: &Arc<Self>, lease: Lease, asked: Instant) -> Held {
        self.held().insert(
            lease.id,
            Entry {
                token: lease.token,
                until: asked + self.lease,
            },
        );
        Held {
            keeper: Arc::clone(self),
            lease,
        }
    }

    /// Renews until aborted.
    pub(super) async fn run(self: Arc<Self>) {
        let mut timer = tokio::time::interval(self.lease / 3);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            self.renew().await;
        }
    }

    async fn renew(&self) {
        let leases: Vec<Lease> = self
            .held()
            .iter()
            .map(|(id, entry)| Lease {
                id: *id,
                token: entry.token,
            })
            .collect();
        if leases.is_empty() {
            return;
        }
        let asked = Instant::now();
        posthaste_core::failpoint::hit("sender.before_renew");
        let renewed = match self.store.renew(leases.clone(), self.lease).await {
            Ok(renewed) => renewed,
            Err(error) => {
                tracing::warn!(%error, held = leases.len(), "could not renew leases; will try again");
                return;
            }
        };
        posthaste_core::failpoint::hit("sender.after_renew");
        let mut held = self.held();
        for (lease, renewed) in leases.iter().zip(renewed) {
            if renewed
                && let Some(entry) = held.get_mut(&lease.id)
                && entry.token == lease.token
            {
                entry.until = asked + self.lease;
            }
        }
    }
}

impl Held {
    /// Whether enough of the lease is left to send the final dot.
    pub(super) fn has_time_left(&self) -> bool {
        let enough = (self.keeper.lease / 4).min(Duration::from_secs(5));
        let held = self.keeper.held();
        held.get(&self.lease.id).is_some_and(|entry| {
            entry.token == self.lease.token
                && entry.until.saturating_duration_since(Instant::now()) >= enough
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.keeper.held();
        if held
            .get(&self.lease.id)
            .is_some_and(|entry| entry.token == self.lease.token)
        {
            held.remove(&self.lease.id);
        }
    }
}
