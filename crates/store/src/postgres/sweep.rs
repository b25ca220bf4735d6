//! Removes attempts and content of emails that stay.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::port::{Store as _, StoreResult};
use tokio_postgres::Error;
use uuid::Uuid;

use super::books::ERASE;
use super::state_row::get;
use super::{PREFIX, PostgresStore};
use crate::prune::before;
use crate::sweep::{self, PIECE, Sweep, Swept, smallest_id};

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
    ) -> StoreResult<Swept> {
        self.sweep(
            &self.attempt_sweep,
            &sweep::attempts(PREFIX),
            kept,
            most,
            (STRIP_ATTEMPTS, &[]),
        )
        .await
    }

    pub(super) async fn prune_contents(
        &self,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<Swept> {
        self.sweep(
            &self.content_sweep,
            &sweep::content(PREFIX),
            kept,
            most,
            (LOCK_OVER, &ERASE),
        )
        .await
    }

    /// Looks for emails and takes something off those that ended before a time.
    async fn sweep(
        &self,
        sweep: &Sweep,
        sql: &str,
        kept: Option<Duration>,
        most: usize,
        (lock, further): (&'static str, &[&'static str]),
    ) -> StoreResult<Swept> {
        let Some(kept) = kept else {
            return Ok(Swept::default());
        };
        let now = self.now();
        let ended = before(now, kept);
        let mut round = sweep.round(now, ended, most);
        while let Some(after) = round.next_piece() {
            round.take(&self.piece(sql, after, ended).await?);
        }
        let stripped = self.strip(&round.found, lock, ended, further).await?;
        Ok(sweep.keep(&round, stripped))
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
        found: &[Uuid],
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
