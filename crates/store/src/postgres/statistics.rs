//! Numbers about emails, from the counters that are written with the rows.

use std::sync::PoisonError;

use deadpool_postgres::ClientWrapper;
use posthaste_core::port::{Statistics, Store as _, StoreResult};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::corrupt;
use super::state_row::get;
use crate::statistics::{Moves, added_up, place};

/// Counters by their two ends, of the minutes from `$1` to before `$2`: ever, in the last hour, in the
/// last day, by the minute `$3`. Writers count in slots of their own, which are added up here.
const COUNTERS: &str = "SELECT from_status, to_status, sum(n)::bigint,
         coalesce(sum(n) FILTER (WHERE minute > $3::int8 - 60), 0)::bigint,
         coalesce(sum(n) FILTER (WHERE minute > $3::int8 - 1440), 0)::bigint
     FROM stat WHERE minute >= $1 AND minute < $2 GROUP BY 1, 2";

/// So many minutes back nobody counts any more. What is older is added up once a minute.
const SETTLED_AFTER: i64 = 70;

/// The sums of what is older, as seen in this minute.
pub(super) struct Settled {
    present: i64,
    moves: Vec<Moves>,
}

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
        let present = self.now().as_second().div_euclid(60);
        let since = present - SETTLED_AFTER;
        let settled = self.settled(present);
        // One snapshot, so that nothing is missed between two looks.
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let (old, fresh, waiting) = self
            .desk
            .transaction(snapshot, async |client| {
                let waiting = client.prepare_cached(WAITING).await?;
                let old = match &settled {
                    Some(_) => Vec::new(),
                    None => counters(client, [0, since, present]).await?,
                };
                let fresh = counters(client, [since, i64::MAX, present]).await?;
                let waiting = client.query_one(&waiting, &[]).await?;
                Ok::<_, Error>((old, fresh, waiting))
            })
            .await?;
        let mut moves = match settled {
            Some(moves) => moves,
            None => self.settle(present, moves_of(&old)?),
        };
        moves.extend(moves_of(&fresh)?);
        let mut found = added_up(moves);
        found.oldest_waiting = get(&waiting, 0)?;
        found.due = u64::try_from(get::<i64>(&waiting, 1)?).map_err(corrupt)?;
        Ok(found)
    }

    /// What was added up in this very minute, if anything was.
    fn settled(&self, present: i64) -> Option<Vec<Moves>> {
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = settled.as_ref().filter(|old| old.present == present)?;
        Some(settled.moves.clone())
    }

    fn settle(&self, present: i64, moves: Vec<Moves>) -> Vec<Moves> {
        let settled = Settled {
            present,
            moves: moves.clone(),
        };
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = Some(settled);
        moves
    }
}

/// The rows of `COUNTERS` with these values.
pub(super) async fn counters(
    client: &ClientWrapper,
    [from, to, present]: [i64; 3],
) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(COUNTERS).await?;
    client.query(&statement, &[&from, &to, &present]).await
}

/// What rows of `COUNTERS` say, if they are all that there are.
pub(super) fn numbers_of(rows: &[Row]) -> StoreResult<Statistics> {
    Ok(added_up(moves_of(rows)?))
}

fn moves_of(rows: &[Row]) -> StoreResult<Vec<Moves>> {
    let moves = |row: &Row| {
        Ok(Moves {
            from: place(get(row, 0)?).map_err(corrupt)?,
            to: place(get(row, 1)?).map_err(corrupt)?,
            total: get(row, 2)?,
            hour: get(row, 3)?,
            day: get(row, 4)?,
        })
    };
    rows.iter().map(moves).collect()
}
