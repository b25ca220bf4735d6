//! Numbers about emails, from the counters that are written with the rows.

use posthaste_core::port::{Statistics, StoreResult};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::corrupt;
use super::state_row::get;
use crate::statistics::{Moves, added_up, place};

/// All counters by their two ends: ever, in the last hour, in the last day. Writers count in
/// slots of their own, which are added up here. (Without OFFSET the time is worked out again for each
/// row, which costs more than all the rest.)
pub(super) const COUNTERS: &str = "SELECT from_status, to_status, sum(n)::bigint,
         coalesce(sum(n) FILTER (WHERE minute > present - 60), 0)::bigint,
         coalesce(sum(n) FILTER (WHERE minute > present - 1440), 0)::bigint
     FROM stat, (SELECT floor(extract(epoch FROM posthaste_now()) / 60)::bigint AS present
                 OFFSET 0) AS now
     GROUP BY 1, 2";

/// Since when the oldest waits, and how many failed ones are due.
/// The first of each kind is looked up, however many there are: of each state and priority, and of
/// those that are parked also of each of what they wait for.
pub(super) const WAITING: &str = "WITH RECURSIVE parked (ways) AS (
         SELECT min(waiting_for) FROM email_log WHERE waiting_for IS NOT NULL
         UNION ALL
         SELECT (SELECT min(waiting_for) FROM email_log WHERE waiting_for > parked.ways)
         FROM parked WHERE parked.ways IS NOT NULL)
     SELECT (SELECT min(oldest) FROM (
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE status = 'pending' AND waiting_for IS NULL AND priority = kind
                 ORDER BY next_attempt_at LIMIT 1) AS oldest
         FROM generate_series(0, 2) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE status = 'retry_queued' AND waiting_for IS NULL AND priority = kind
                 ORDER BY next_attempt_at LIMIT 1)
         FROM generate_series(0, 2) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE status = 'failed' AND waiting_for IS NULL AND priority = kind
                 ORDER BY next_attempt_at LIMIT 1)
         FROM generate_series(0, 2) AS kind
         UNION ALL
         SELECT (SELECT next_attempt_at FROM email_log
                 WHERE waiting_for = parked.ways AND priority = kind
                 ORDER BY next_attempt_at LIMIT 1)
         FROM parked, generate_series(0, 2) AS kind) AS waiting
       WHERE oldest <= posthaste_now()),
       (SELECT count(*) FROM email_log
        WHERE status = 'failed' AND waiting_for IS NULL AND priority IN (0, 1, 2)
          AND next_attempt_at <= posthaste_now())";

impl PostgresStore {
    pub(super) async fn all_statistics(&self) -> StoreResult<Statistics> {
        // One snapshot, so that nothing is missed between two looks.
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let (counters, waiting) = self
            .desk
            .transaction(snapshot, async |client| {
                let counters = client.prepare_cached(COUNTERS).await?;
                let waiting = client.prepare_cached(WAITING).await?;
                let counters = client.query(&counters, &[]).await?;
                Ok::<_, Error>((counters, client.query_one(&waiting, &[]).await?))
            })
            .await?;
        let mut found = numbers_of(&counters)?;
        found.oldest_waiting = get(&waiting, 0)?;
        found.due = u64::try_from(get::<i64>(&waiting, 1)?).map_err(corrupt)?;
        Ok(found)
    }
}

/// What the rows of `COUNTERS` say.
pub(super) fn numbers_of(rows: &[Row]) -> StoreResult<Statistics> {
    let lines = rows.iter().map(moves_of).collect::<StoreResult<Vec<_>>>()?;
    Ok(added_up(lines))
}

fn moves_of(row: &Row) -> StoreResult<Moves> {
    Ok(Moves {
        from: place(get(row, 0)?).map_err(corrupt)?,
        to: place(get(row, 1)?).map_err(corrupt)?,
        total: get(row, 2)?,
        hour: get(row, 3)?,
        day: get(row, 4)?,
    })
}
