//! Removes messages that are over for long enough. Never one that waits, whatever its age.
//!
//! Several instances may do so at the same time: each takes what no other is at.

use std::time::Duration;

use posthaste_core::port::{MessageRetention, StoreResult};

use super::super::PostgresStore;
use super::super::state_row::get;
use super::count::slot;

/// Removes messages of some states that ended before a moment, and counts them.
macro_rules! delete {
    ($statuses:literal) => {
        concat!(
            "WITH old AS MATERIALIZED (
                 SELECT id FROM retry_queue
                 WHERE status IN (",
            $statuses,
            ") AND finished_at < posthaste_now() - make_interval(secs => $1)
                 ORDER BY status, finished_at LIMIT $2 FOR UPDATE SKIP LOCKED),
             removed AS (DELETE FROM retry_queue q USING old WHERE q.id = old.id RETURNING q.status),
             counted AS (
                 INSERT INTO message_count (slot, status, n) SELECT ",
            slot!(),
            ", status, -count(*) FROM removed GROUP BY status ORDER BY status
                 ON CONFLICT (slot, status) DO UPDATE SET n = message_count.n + excluded.n)
             SELECT count(*) FROM removed"
        )
    };
}
const DELETE_RETRIED: &str = delete!("'retried'");
const DELETE_FAILED: &str = delete!("'failed', 'discarded'");

/// Adds up the slots. Sums stay the same. What someone holds is left for another time.
const COMPACT: &str = "WITH old AS MATERIALIZED (
         SELECT slot, status FROM message_count WHERE slot <> 0
         ORDER BY slot, status FOR UPDATE SKIP LOCKED),
     moved AS (
         DELETE FROM message_count c USING old
         WHERE c.slot = old.slot AND c.status = old.status RETURNING c.status, c.n)
     INSERT INTO message_count (slot, status, n)
     SELECT 0, status, sum(n)::int8 FROM moved GROUP BY status ORDER BY status
     ON CONFLICT (slot, status) DO UPDATE SET n = message_count.n + excluded.n";

/// A longer time than this is for ever.
const LONGEST_SECONDS: f64 = 1e9;

impl PostgresStore {
    pub(in crate::postgres) async fn prune_old_messages(
        &self,
        retention: MessageRetention,
        most: usize,
    ) -> StoreResult<u64> {
        let retried = self
            .delete_over(DELETE_RETRIED, retention.retried, most)
            .await?;
        let left = most.saturating_sub(usize::try_from(retried).unwrap_or(usize::MAX));
        let failed = self
            .delete_over(DELETE_FAILED, retention.failed, left)
            .await?;
        self.ask(COMPACT, &[]).await?;
        Ok(retried + failed)
    }

    async fn delete_over(&self, sql: &str, age: Duration, most: usize) -> StoreResult<u64> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let age = age.as_secs_f64().min(LONGEST_SECONDS);
        let rows = self.ask(sql, &[&age, &most]).await?;
        let removed: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        Ok(removed.unsigned_abs())
    }
}
