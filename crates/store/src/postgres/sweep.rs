//! Removes attempts and content of emails that stay.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::port::{Store as _, StoreResult};
use tokio_postgres::Error;
use uuid::Uuid;

use super::PostgresStore;
use super::books::ERASE;
use super::state_row::get;
use crate::prune::before;
use crate::sweep::{ATTEMPTS, CONTENT, PIECE, PIECES, Sweep, smallest_id};

/// What has happened since they were found is looked at again; rows that someone holds are left
/// for another time.
const STRIP_ATTEMPTS: &str = "WITH old AS MATERIALIZED (
         SELECT id FROM email_log WHERE id = ANY($1) AND status IN ('sent', 'cancelled')
           AND finished_at < $2 FOR UPDATE SKIP LOCKED),
     marked AS (UPDATE email_log l SET attempts_pruned_to = attempt_number
                FROM old WHERE l.id = old.id),
     gone AS (DELETE FROM email_attempt a USING old WHERE a.email_id = old.id)
     SELECT id FROM old";

/// The same for content, which the statements that follow remove.
const LOCK_OVER: &str = "SELECT id FROM email_log WHERE id = ANY($1) AND finished_at < $2
     ORDER BY id FOR UPDATE SKIP LOCKED";

impl PostgresStore {
    pub(super) async fn prune_attempts(
        &self,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<u64> {
        let (found, ended) = self
            .find_old(&self.attempt_sweep, ATTEMPTS, kept, most)
            .await?;
        self.strip(found, STRIP_ATTEMPTS, ended, &[]).await
    }

    pub(super) async fn prune_contents(
        &self,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<u64> {
        let (found, ended) = self
            .find_old(&self.content_sweep, CONTENT, kept, most)
            .await?;
        self.strip(found, LOCK_OVER, ended, &ERASE).await
    }

    /// Emails to take something off, and before which time they must have ended.
    async fn find_old(
        &self,
        sweep: &Sweep,
        sql: &'static str,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<(Vec<Uuid>, Timestamp)> {
        let now = self.now();
        let ended = before(now, kept.unwrap_or_default());
        let mut found = Vec::new();
        let pieces = if kept.is_some() { PIECES } else { 0 };
        for _ in 0..pieces {
            let rows = self.piece(sql, sweep.start(now), ended).await?;
            let (wanted, more) = sweep.sift(&rows, most - found.len(), ended);
            found.extend(wanted);
            if !more {
                break;
            }
        }
        Ok((found, ended))
    }

    async fn piece(
        &self,
        sql: &str,
        after: Uuid,
        ended: Timestamp,
    ) -> StoreResult<Vec<(Uuid, bool)>> {
        let most = i64::try_from(PIECE).unwrap_or(i64::MAX);
        let values: super::pool::Values<'_> = &[&after, &smallest_id(ended), &ended, &most];
        let rows = self.desk.query(sql, values).await?;
        rows.iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .collect()
    }

    async fn strip(
        &self,
        found: Vec<Uuid>,
        lock: &'static str,
        ended: Timestamp,
        further: &[&'static str],
    ) -> StoreResult<u64> {
        if found.is_empty() {
            return Ok(0);
        }
        let strip = async |client: &ClientWrapper| -> Result<u64, Error> {
            let statement = client.prepare_cached(lock).await?;
            let rows = client.query(&statement, &[&found, &ended]).await?;
            let ids: Vec<Uuid> = rows
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()?;
            for sql in further {
                let statement = client.prepare_cached(sql).await?;
                client.execute(&statement, &[&ids]).await?;
            }
            Ok(ids.len() as u64)
        };
        self.desk.transaction("BEGIN", strip).await
    }
}
