//! Tells whoever listens at the broker which emails died.
//!
//! The news is kept in the transaction in which an email died, and forgotten only after the
//! broker confirmed it: told at least once, also when the broker was away at that moment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{Broker, Published, SharedStore, StoreError};

use crate::service::{Report, Service};

const BATCH: usize = 500;
/// For so long others leave alone what this one is about to tell.
const LEASE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(1);
/// When the broker does not take it, the next try comes after this time.
const AWAY: Duration = Duration::from_secs(5);

/// Publishes notices of deaths.
pub struct Announcer {
    store: SharedStore,
    broker: Option<Arc<dyn Broker>>,
}

impl Announcer {
    /// An announcer that publishes through `broker`. Without one nobody can listen.
    #[must_use]
    pub fn new(store: SharedStore, broker: Option<Arc<dyn Broker>>) -> Self {
        Self { store, broker }
    }
}

#[async_trait]
impl Service for Announcer {
    fn name(&self) -> &'static str {
        "announcer"
    }

    /// The longest rest, which is that of a broker that is away.
    fn interval(&self) -> Duration {
        AWAY
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let (ids, notices): (Vec<_>, Vec<_>) = self
            .store
            .take_notices(BATCH, LEASE)
            .await?
            .into_iter()
            .unzip();
        let count = ids.len();
        if count == 0 {
            return Ok(Report {
                done: 0,
                again_in: Some(INTERVAL),
            });
        }
        posthaste_core::failpoint::hit("announcer.before_publish");
        let answers = match &self.broker {
            Some(broker) => broker.announce(notices).await,
            None => vec![Published::Confirmed; count],
        };
        posthaste_core::failpoint::hit("announcer.after_publish");
        let (mut told, mut untold) = (Vec::new(), Vec::new());
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Published::Confirmed => told.push(id),
                Published::Refused => untold.push(id),
            }
        }
        let (done, away) = (told.len(), !untold.is_empty());
        if away {
            tracing::warn!(
                waiting = untold.len(),
                "the broker did not take notices of dead emails; will try again"
            );
        }
        posthaste_core::failpoint::hit("announcer.before_settle");
        self.store.settle_notices(told, untold).await?;
        posthaste_core::failpoint::hit("announcer.after_settle");
        let again_in = match (away, count == BATCH) {
            (true, _) => AWAY,
            (false, true) => Duration::ZERO,
            (false, false) => INTERVAL,
        };
        Ok(Report {
            done,
            again_in: Some(again_in),
        })
    }
}
