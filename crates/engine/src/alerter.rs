//! Tells people when emails die: many deaths are one alert, and a long outage is a handful.
//!
//! Deaths are kept in the transaction in which they happened. [`Gatherer`] counts them for every
//! channel; each channel has a [`Teller`] of its own, so that one that is down or hangs delays only
//! itself. Nothing here is ever waited for by an email.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::alert::Alert;
use posthaste_core::duration::HumanDuration;
use posthaste_core::port::{AlertChannel, Digest, SharedStore, StoreError, StoreResult, Told};
use posthaste_core::status::Status;
use tokio_util::sync::CancellationToken;

use crate::Metrics;
use crate::service::{Report, Service};

/// At most this many deaths are counted at once.
const BATCH: usize = 5000;
/// How often to look for deaths, and for something to tell.
const INTERVAL: Duration = Duration::from_secs(1);
/// For so long others leave alone what this one is about to tell.
const LEASE: Duration = Duration::from_secs(60);
/// After a failure, the next try comes after this time, then after twice as long each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(600);

/// When alerts are told, and what they say of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertConfig {
    /// How long to wait for further deaths after the first.
    pub gather: Duration,
    /// How long to be quiet after an alert; twice as long after each further one.
    pub every: Duration,
    /// The longest time to be quiet. Without deaths for as long, it begins anew.
    pub longest: Duration,
    /// A channel that does not answer within this time has failed.
    pub deadline: Duration,
    /// Which service speaks.
    pub service: String,
    /// Where people can look, if that is known.
    pub dashboard_url: Option<String>,
}

impl Default for AlertConfig {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(5),
            every: Duration::from_secs(60),
            longest: Duration::from_secs(900),
            deadline: Duration::from_secs(15),
            service: "posthaste".into(),
            dashboard_url: None,
        }
    }
}

impl AlertConfig {
    /// An alert to see whether a channel works.
    #[must_use]
    pub fn test_alert(&self, id: String, at: posthaste_core::Timestamp) -> Alert {
        Alert {
            id,
            service: self.service.clone(),
            dashboard_url: self.dashboard_url.clone(),
            is_test: true,
            groups: Vec::new(),
            dead_letters: 0,
            at,
        }
    }

    /// How long to be quiet after an alert.
    fn rest(&self, streak: u32) -> Duration {
        doubled(self.every, streak, self.longest)
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 2u32.checked_pow(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest.max(first))
}

/// Counts deaths for every channel. Without channels it only forgets them.
pub struct Gatherer {
    store: SharedStore,
    channels: Vec<String>,
}

impl Gatherer {
    /// A gatherer for these channels.
    #[must_use]
    pub fn new(store: SharedStore, channels: &[Arc<dyn AlertChannel>]) -> Self {
        let channels = channels.iter().map(|one| one.name().to_owned()).collect();
        Self { store, channels }
    }
}

#[async_trait]
impl Service for Gatherer {
    fn name(&self) -> &'static str {
        "gatherer"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let done = self.store.gather_deaths(&self.channels, BATCH).await?;
        Ok(Report {
            done,
            again_in: (done == BATCH).then_some(Duration::ZERO),
        })
    }
}

/// Tells one channel.
pub struct Teller {
    store: SharedStore,
    channel: Arc<dyn AlertChannel>,
    config: AlertConfig,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
}

impl Teller {
    /// A teller for this channel. At shutdown it does not wait for the channel's answer: what was
    /// not told for certain is told again, under the same id.
    #[must_use]
    pub fn new(
        store: SharedStore,
        channel: Arc<dyn AlertChannel>,
        config: AlertConfig,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
    ) -> Self {
        metrics.expect_alerts(channel.name());
        Self {
            store,
            channel,
            config,
            metrics,
            shutdown,
        }
    }

    async fn alert(&self, digest: &Digest) -> StoreResult<Alert> {
        let statistics = self.store.statistics().await?;
        Ok(Alert {
            id: digest.id.clone(),
            service: self.config.service.clone(),
            dashboard_url: self.config.dashboard_url.clone(),
            is_test: false,
            groups: digest.groups.clone(),
            dead_letters: statistics
                .by_status
                .get(&Status::Dead)
                .copied()
                .unwrap_or_default(),
            at: self.store.now(),
        })
    }

    fn outcome(&self, digest: &Digest, alert: &Alert, told: Result<(), String>) -> Told {
        let channel = self.channel.name();
        self.metrics.told(channel, told.is_ok());
        match told {
            Ok(()) => {
                tracing::info!(channel, deaths = alert.count(), "alerted");
                Told::Told {
                    rest: self.config.rest(digest.streak),
                }
            }
            Err(error) => {
                tracing::warn!(channel, %error, "could not tell of dead emails; will try again");
                Told::Failed {
                    rest: doubled(FIRST_BACKOFF, digest.failures, LONGEST_BACKOFF),
                    error,
                }
            }
        }
    }
}

#[async_trait]
impl Service for Teller {
    fn name(&self) -> &'static str {
        "teller"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let AlertConfig {
            gather,
            longest,
            deadline,
            ..
        } = self.config;
        let channel = self.channel.name();
        let taken = self.store.take_digest(channel, gather, longest, LEASE);
        let Some(digest) = taken.await? else {
            return Ok(Report::default());
        };
        let alert = self.alert(&digest).await?;
        let told = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Ok(Report::default()),
            told = tokio::time::timeout(deadline, self.channel.tell(&alert)) => told,
        };
        let told =
            told.unwrap_or_else(|_| Err(format!("no answer within {}", HumanDuration(deadline))));
        let outcome = self.outcome(&digest, &alert, told);
        self.store.settle_digest(channel, &digest, outcome).await?;
        Ok(Report {
            done: 1,
            again_in: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_the_longest() {
        let config = AlertConfig::default();
        let minutes: Vec<u64> = [0, 1, 2, 3, 4, 5, 4_000_000]
            .map(|streak| config.rest(streak).as_secs() / 60)
            .to_vec();
        assert_eq!(minutes, [1, 2, 4, 8, 15, 15, 15]);
    }
}
