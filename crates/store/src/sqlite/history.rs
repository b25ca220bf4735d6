//! What happened to emails over time, from the counters.

use posthaste_core::port::{HistoryStep, Store as _, StoreResult};

use super::{SqliteStore, corrupt};
use crate::history::{Line, Window};
use crate::statistics::place;

impl SqliteStore {
    pub(super) async fn history_steps(
        &self,
        step_minutes: u32,
        steps: u32,
    ) -> StoreResult<Vec<HistoryStep>> {
        let window = Window::new(step_minutes, steps, self.now());
        self.desk
            .run(move |connection| {
                let lines: Vec<Line> = connection
                    .prepare_cached(
                        "SELECT minute - minute % ?2, from_status, to_status, sum(n)
                         FROM posthaste_stat
                         WHERE minute >= ?1 GROUP BY 1, 2, 3",
                    )?
                    .query_map((window.first, window.step_minutes), |row| {
                        Ok(Line {
                            minute: row.get(0)?,
                            from: place(row.get_ref(1)?.as_str()?).map_err(corrupt)?,
                            to: place(row.get_ref(2)?.as_str()?).map_err(corrupt)?,
                            n: row.get(3)?,
                        })
                    })?
                    .collect::<Result<_, _>>()?;
                Ok(window.filled(lines))
            })
            .await
    }
}
