//! What happened to emails over time, from the counters.

use posthaste_core::port::{HistoryStep, StoreError, StoreResult};

use super::PostgresStore;

impl PostgresStore {
    pub(super) async fn history_steps(
        &self,
        _step_minutes: u32,
        _steps: u32,
    ) -> StoreResult<Vec<HistoryStep>> {
        Err(StoreError::Failed("not built yet".into()))
    }
}
