//! What happened to emails over time, from the counters.

use posthaste_core::port::{HistoryStep, Store as _, StoreResult};

use super::PostgresStore;
use super::error::corrupt;
use super::state_row::get;
use crate::history::{Line, Window};
use crate::statistics::place;

/// The counters of steps of `$2` minutes since the minute `$1`.
const COUNTERS: &str = "SELECT minute - minute % $2, from_status, to_status, sum(n)::bigint
     FROM stat WHERE minute >= $1 GROUP BY 1, 2, 3";

impl PostgresStore {
    pub(super) async fn history_steps(
        &self,
        step_minutes: u32,
        steps: u32,
    ) -> StoreResult<Vec<HistoryStep>> {
        let window = Window::new(step_minutes, steps, self.now());
        let rows = self
            .desk
            .query(COUNTERS, &[&window.first, &window.step_minutes])
            .await?;
        let lines: StoreResult<Vec<Line>> = rows
            .iter()
            .map(|row| {
                Ok(Line {
                    minute: get(row, 0)?,
                    from: place(get(row, 1)?).map_err(corrupt)?,
                    to: place(get(row, 2)?).map_err(corrupt)?,
                    n: get(row, 3)?,
                })
            })
            .collect();
        Ok(window.filled(lines?))
    }
}
