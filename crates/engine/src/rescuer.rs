//! Releases what lost workers held, and lets policies decide about emails of unknown fate.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::decision::{Budget, settle_unknown};
use posthaste_core::port::{SharedStore, StoreError, Undecided};
use posthaste_core::status::{Outcome, Phase, Status};
use tokio::sync::Notify;

use crate::metrics::LOST_TRANSPORT;
use crate::service::{Report, Service};
use crate::{Metrics, Policies};

const BATCH: usize = 500;

/// Releases expired leases.
pub struct Rescuer {
    store: SharedStore,
    policies: Arc<Policies>,
    metrics: Arc<Metrics>,
    scheduler: Arc<Notify>,
    interval: Duration,
}

impl Rescuer {
    /// A rescuer that looks several times per lease.
    #[must_use]
    pub fn new(
        store: SharedStore,
        policies: Arc<Policies>,
        metrics: Arc<Metrics>,
        scheduler: Arc<Notify>,
        lease: Duration,
    ) -> Self {
        let interval = (lease / 4).clamp(Duration::from_millis(200), Duration::from_secs(2));
        Self {
            store,
            policies,
            metrics,
            scheduler,
            interval,
        }
    }

    fn decide(&self, email: &Undecided) -> posthaste_core::decision::Conclusion {
        let policy = self.policies.of(&email.policy);
        let max_attempts = email.state.max_attempts.unwrap_or(policy.max_attempts);
        let expires_in = email.expires_at.map(|at| {
            Duration::try_from(at.duration_since(self.store.now())).unwrap_or(Duration::ZERO)
        });
        let budget = Budget::before_unknown(&email.state, max_attempts, expires_in);
        settle_unknown(&budget, policy, rand::random())
    }
}

#[async_trait]
impl Service for Rescuer {
    fn name(&self) -> &'static str {
        "rescuer"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        posthaste_core::failpoint::hit("rescuer.before_rescue");
        let rescued = self.store.rescue(BATCH).await?;
        if !rescued.is_empty() {
            posthaste_core::failpoint::hit("rescuer.after_rescue");
        }
        for rescue in &rescued {
            self.metrics.lease_rescued(rescue.phase);
            match rescue.phase {
                Phase::Preparing => self.metrics.attempt_ended(LOST_TRANSPORT, Outcome::Lost),
                Phase::Committing => self.metrics.attempt_ended(LOST_TRANSPORT, Outcome::Unknown),
                Phase::Idle => {}
            }
            if let (Status::Dead, Some(reason)) = (rescue.state.status, rescue.state.dead_reason) {
                self.metrics.died(reason);
            }
            tracing::warn!(email_id = %rescue.id, phase = %rescue.phase, now = %rescue.state.status, "a lease expired");
        }
        let undecided = self.store.undecided(BATCH).await?;
        let settlements: Vec<_> = undecided
            .iter()
            .map(|email| (email.id, self.decide(email)))
            .collect();
        let done = rescued.len() + settlements.len();
        if !settlements.is_empty() {
            posthaste_core::failpoint::hit("rescuer.before_settle");
            self.store.settle(settlements).await?;
            posthaste_core::failpoint::hit("rescuer.after_settle");
        }
        if done > 0 {
            self.scheduler.notify_one();
        }
        let again_in =
            (rescued.len() == BATCH || undecided.len() == BATCH).then_some(Duration::ZERO);
        Ok(Report { done, again_in })
    }
}
