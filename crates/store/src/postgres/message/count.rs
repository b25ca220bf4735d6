//! How many messages are in each state, from the counters that are written with the rows.

use posthaste_core::port::{MessageStatistics, StoreResult};
use tokio_postgres::{Error, Row};

use super::super::PostgresStore;
use super::super::books::{Pipeline, values};
use super::super::state_row::{get, named};
use crate::message::{Moves, added_up};

/// Where a connection counts. Slot 0 is for what was added up.
macro_rules! slot {
    () => {
        "1 + pg_backend_pid() % 1024"
    };
}
pub(super) use slot;

/// In the order of the key, so that two transactions never wait for each other in a circle.
const COUNT: &str = concat!(
    "INSERT INTO message_count (slot, status, n) SELECT ",
    slot!(),
    ", u.status, u.n FROM unnest($1::text[], $2::int8[]) AS u (status, n) ORDER BY u.status
     ON CONFLICT (slot, status) DO UPDATE SET n = message_count.n + excluded.n"
);

/// All counters.
pub(super) const COUNTERS: &str = "SELECT status, sum(n)::int8 FROM message_count GROUP BY status";

/// When the oldest that waits became due.
pub(in crate::postgres) const OLDEST_DUE: &str = "SELECT min(next_retry_at) FROM retry_queue
     WHERE status = 'pending' AND next_retry_at <= posthaste_now()";

impl PostgresStore {
    pub(in crate::postgres) async fn all_message_statistics(
        &self,
    ) -> StoreResult<MessageStatistics> {
        let by_status = self.desk.query(COUNTERS, &[]).await?;
        let oldest = self.desk.query(OLDEST_DUE, &[]).await?;
        Ok(MessageStatistics {
            by_status: added_up(counters_of(&by_status)?),
            oldest_due: oldest.first().map_or(Ok(None), |row| get(row, 0))?,
        })
    }
}

/// What rows of a state and a number say.
pub(super) fn counters_of(
    rows: &[Row],
) -> StoreResult<Vec<(posthaste_core::message::MessageStatus, i64)>> {
    rows.iter()
        .map(|row| Ok((named(row, 0)?, get(row, 1)?)))
        .collect()
}

/// Counts what was moved.
pub(super) async fn send_moves(pipeline: &mut Pipeline<'_>, moves: &Moves) -> Result<(), Error> {
    let moved = || moves.iter().filter(|(_, n)| **n != 0);
    if moved().next().is_none() {
        return Ok(());
    }
    let statuses: Vec<_> = moved().map(|(status, _)| status.as_str()).collect();
    let numbers: Vec<_> = moved().map(|(_, n)| *n).collect();
    pipeline.send(COUNT, values![statuses, numbers]).await
}
