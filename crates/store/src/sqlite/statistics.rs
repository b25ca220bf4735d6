//! Numbers about emails, from the counters that are written with the rows.

use posthaste_core::port::{Statistics, StoreResult};
use rusqlite::Connection;

use super::state_row::optional_time;
use super::{SqliteStore, corrupt, micros};
use crate::statistics::{Moves, added_up, place};

impl SqliteStore {
    pub(super) async fn all_statistics(&self) -> StoreResult<Statistics> {
        let now = micros(posthaste_core::port::Store::now(self));
        self.desk
            .run(move |connection| {
                // One snapshot, so that nothing is missed between two looks.
                statistics(&*connection.unchecked_transaction()?, now)
            })
            .await
    }
}

/// Since when the oldest waits, and how many failed ones are due. `?1` is now.
/// The first of each kind is looked up, however many there are: of each state and priority, and of
/// those that are parked also of each of what they wait for.
pub(super) const WAITING: &str = "WITH RECURSIVE parked (ways) AS (
         SELECT min(waiting_for) FROM posthaste_email_log WHERE waiting_for IS NOT NULL
         UNION ALL
         SELECT (SELECT min(waiting_for) FROM posthaste_email_log WHERE waiting_for > parked.ways)
         FROM parked WHERE parked.ways IS NOT NULL)
     SELECT (SELECT min(oldest) FROM (
         SELECT (SELECT next_attempt_at FROM posthaste_email_log
                 WHERE status = 'pending' AND waiting_for IS NULL AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1) AS oldest
         FROM (VALUES (0), (1), (2)) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM posthaste_email_log
                 WHERE status = 'retry_queued' AND waiting_for IS NULL AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1)
         FROM (VALUES (0), (1), (2)) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM posthaste_email_log
                 WHERE status = 'failed' AND waiting_for IS NULL AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1)
         FROM (VALUES (0), (1), (2)) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM posthaste_email_log
                 WHERE waiting_for = parked.ways AND priority = kind.column1
                 ORDER BY next_attempt_at LIMIT 1)
         FROM parked, (VALUES (0), (1), (2)) AS kind)
       WHERE oldest <= ?1),
       (SELECT count(*) FROM posthaste_email_log
        WHERE status = 'failed' AND waiting_for IS NULL AND priority IN (0, 1, 2)
          AND next_attempt_at <= ?1)";

pub(super) fn statistics(connection: &Connection, now: i64) -> rusqlite::Result<Statistics> {
    let minute = now / 60_000_000;
    let lines: Vec<Moves> = connection
        .prepare_cached(
            "SELECT from_status, to_status, sum(n), sum(n) FILTER (WHERE minute > ?1 - 60),
                 sum(n) FILTER (WHERE minute > ?1 - 1440)
             FROM posthaste_stat GROUP BY 1, 2",
        )?
        .query_map([minute], |row| {
            Ok(Moves {
                from: place(row.get_ref(0)?.as_str()?).map_err(corrupt)?,
                to: place(row.get_ref(1)?.as_str()?).map_err(corrupt)?,
                total: row.get(2)?,
                hour: row.get::<_, Option<i64>>(3)?.unwrap_or(0),
                day: row.get::<_, Option<i64>>(4)?.unwrap_or(0),
            })
        })?
        .collect::<Result<_, _>>()?;
    let mut found = added_up(lines);
    (found.oldest_waiting, found.due) = connection
        .prepare_cached(WAITING)?
        .query_row([now], |row| Ok((optional_time(row, 0)?, row.get(1)?)))?;
    Ok(found)
}
