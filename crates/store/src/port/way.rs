//! The ports about ways out, about what people are told of them and of emails that died, and about
//! addresses that get nothing any more.

/// Implements them for a store, in the module in which the other ports are implemented.
macro_rules! implement_way_ports {
    ($store:ident) => {
        use posthaste_core::feedback::{ProviderEvent, Recorded};
        use posthaste_core::suppression::Suppression;
        use posthaste_core::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};

        #[async_trait]
        impl WayStore for $store {
            async fn tell_way(
                &self,
                name: &WayName,
                event: WayEvent,
                rules: &BreakerRules,
                actor: Option<&Actor>,
            ) -> StoreResult<(Way, WayAnswer)> {
                self.tell_one_way(name, event, rules, actor).await
            }

            async fn watch_ways(
                &self,
                sender: Option<&str>,
                present: Duration,
            ) -> StoreResult<WaysReport> {
                self.report_ways(sender, present).await
            }

            async fn parked(&self) -> StoreResult<Vec<Parked>> {
                self.count_parked().await
            }
        }

        #[async_trait]
        impl SuppressionStore for $store {
            async fn suppress(
                &self,
                suppressions: Vec<Suppression>,
                actor: &Actor,
            ) -> StoreResult<Vec<bool>> {
                self.suppress_all(suppressions, actor).await
            }

            async fn unsuppress(
                &self,
                owner: &str,
                address: &str,
                actor: &Actor,
            ) -> StoreResult<bool> {
                self.delete_suppression(owner, address, actor).await
            }

            async fn suppressions(
                &self,
                filter: &SuppressionFilter,
            ) -> StoreResult<Vec<Suppression>> {
                self.list_suppressions(filter).await
            }

            async fn record_feedback(
                &self,
                transport: &str,
                events: Vec<ProviderEvent>,
            ) -> StoreResult<Vec<Recorded>> {
                self.record_all_feedback(transport, events).await
            }
        }

        #[async_trait]
        impl AlertStore for $store {
            async fn gather_deaths(&self, channels: &[String], most: usize) -> StoreResult<usize> {
                self.count_deaths(channels, most).await
            }

            async fn take_digest(
                &self,
                channel: &str,
                gather: Duration,
                quiet: Duration,
                lease: Duration,
            ) -> StoreResult<Option<Digest>> {
                self.digest_of(channel, gather, quiet, lease).await
            }

            async fn settle_digest(
                &self,
                channel: &str,
                digest: &Digest,
                told: Told,
            ) -> StoreResult<()> {
                self.settle_told(channel, digest, told).await
            }

            async fn alert_channels(&self) -> StoreResult<Vec<ChannelState>> {
                self.all_channels().await
            }
        }
    };
}

pub(crate) use implement_way_ports;
