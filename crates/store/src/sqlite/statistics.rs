//! Numbers about emails, from the counters that are written with the rows.

use posthaste_core::port::{Statistics, StoreResult};
use posthaste_core::status::Status;
use rusqlite::Connection;

use super::state_row::optional_time;
use super::{SqliteStore, corrupt, micros};

impl SqliteStore {
    pub(super) async fn all_statistics(&self) -> StoreResult<Statistics> {
        let now = micros(posthaste_core::port::Store::now(self));
        self.desk
            .run(move |connection| statistics(connection, now))
            .await
    }
}

/// Reads a status, or the outside of the store.
fn place(text: &str) -> rusqlite::Result<Option<Status>> {
    if text.is_empty() {
        Ok(None)
    } else {
        text.parse().map(Some).map_err(corrupt)
    }
}

/// Since when the oldest waits, and how many failed ones are due. `?1` is now.
pub(super) const WAITING: &str = "SELECT (SELECT min(oldest) FROM (
         SELECT min(next_attempt_at) AS oldest FROM email_log WHERE status = 'pending'
         UNION ALL
         SELECT min(next_attempt_at) FROM email_log WHERE status = 'retry_queued'
         UNION ALL
         SELECT min(next_attempt_at) FROM email_log WHERE status = 'failed')
       WHERE oldest <= ?1),
       (SELECT count(*) FROM email_log WHERE status = 'failed' AND next_attempt_at <= ?1)";

pub(super) fn statistics(connection: &Connection, now: i64) -> rusqlite::Result<Statistics> {
    let mut balances = std::collections::BTreeMap::<Status, i64>::new();
    let mut found = Statistics::default();
    let minute = now / 60_000_000;
    let mut statement = connection.prepare_cached(
        "SELECT from_status, to_status, sum(n), sum(n) FILTER (WHERE minute > ?1 - 60),
             sum(n) FILTER (WHERE minute > ?1 - 1440)
         FROM stat GROUP BY 1, 2",
    )?;
    let mut rows = statement.query([minute])?;
    while let Some(row) = rows.next()? {
        let from = place(row.get_ref(0)?.as_str()?)?;
        let to = place(row.get_ref(1)?.as_str()?)?;
        let total: i64 = row.get(2)?;
        let hour: u64 = row.get::<_, Option<u64>>(3)?.unwrap_or(0);
        let day: u64 = row.get::<_, Option<u64>>(4)?.unwrap_or(0);
        match from {
            Some(status) => *balances.entry(status).or_default() -= total,
            None => found.accepted += total.unsigned_abs(),
        }
        match to {
            Some(status) => *balances.entry(status).or_default() += total,
            None => found.pruned += total.unsigned_abs(),
        }
        match (from, to) {
            (_, Some(Status::Sent)) => {
                found.sent_last_hour += hour;
                found.sent_last_day += day;
            }
            // A restored one did not die again.
            (Some(Status::Discarded), Some(Status::Dead)) => {}
            (_, Some(Status::Dead)) => found.dead_last_day += day,
            _ => {}
        }
    }
    found.by_status = Status::ALL
        .iter()
        .map(|status| {
            (
                *status,
                u64::try_from(balances.get(status).copied().unwrap_or(0)).unwrap_or(0),
            )
        })
        .collect();
    (found.oldest_waiting, found.due) = connection
        .prepare_cached(WAITING)?
        .query_row([now], |row| Ok((optional_time(row, 0)?, row.get(1)?)))?;
    Ok(found)
}
