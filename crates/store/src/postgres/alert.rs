//! What channels have not told yet of emails that died.

use std::time::Duration;

use posthaste_core::port::{ChannelState, Digest, StoreError, StoreResult, Told};

use super::PostgresStore;

impl PostgresStore {
    pub(super) async fn count_deaths(
        &self,
        _channels: &[String],
        _most: usize,
    ) -> StoreResult<usize> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn digest_of(
        &self,
        _channel: &str,
        _gather: Duration,
        _quiet: Duration,
        _lease: Duration,
    ) -> StoreResult<Option<Digest>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn settle_told(
        &self,
        _channel: &str,
        _digest: &Digest,
        _told: Told,
    ) -> StoreResult<()> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn all_channels(&self) -> StoreResult<Vec<ChannelState>> {
        Err(StoreError::Failed("not built yet".into()))
    }
}
