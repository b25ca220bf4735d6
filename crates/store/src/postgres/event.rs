//! What is to be told outside of the store.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::email::EmailId;
use posthaste_core::port::{DeadNotice, NoticeId, StoreResult};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::claim::any;
use super::state_row::{get, named, unsigned};

/// Takes notices, each once, however many instances ask.
const TAKE: &str = "WITH taken AS (
         SELECT seq FROM event WHERE locked_until IS NULL OR locked_until <= posthaste_now()
         ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED),
     locked AS (
         UPDATE event v SET locked_until = posthaste_now() + make_interval(secs => $2)
         FROM taken WHERE v.seq = taken.seq
         RETURNING v.seq, v.email_id, v.reason, v.error, v.attempts, v.at)
     SELECT v.seq, v.email_id, coalesce(e.message_key, ''), v.reason, v.error, v.attempts, v.at
     FROM locked v LEFT JOIN email e ON e.id = v.email_id ORDER BY v.seq";

impl PostgresStore {
    pub(super) async fn take_untold(
        &self,
        most: usize,
        lease: Duration,
    ) -> StoreResult<Vec<(NoticeId, DeadNotice)>> {
        // Most of the time there is nothing.
        let sql = "SELECT EXISTS (SELECT 1 FROM event)";
        if !any(&self.pool.query(sql, &[]).await?)? {
            return Ok(Vec::new());
        }
        let (most, lease) = (i64::try_from(most).unwrap_or(i64::MAX), lease.as_secs_f64());
        let take = async |client: &ClientWrapper| -> Result<Vec<Row>, Error> {
            let statement = client.prepare_cached(TAKE).await?;
            client.query(&statement, &[&most, &lease]).await
        };
        let rows = self.pool.run(take).await?;
        rows.iter().map(notice_of).collect()
    }

    pub(super) async fn settle_all_notices(
        &self,
        told: Vec<NoticeId>,
        untold: Vec<NoticeId>,
    ) -> StoreResult<()> {
        let settle = async |client: &ClientWrapper| -> Result<(), Error> {
            for (sql, notices) in [
                ("DELETE FROM event WHERE seq = ANY($1)", &told),
                (
                    "UPDATE event SET locked_until = NULL WHERE seq = ANY($1)",
                    &untold,
                ),
            ] {
                if !notices.is_empty() {
                    let statement = client.prepare_cached(sql).await?;
                    client.execute(&statement, &[notices]).await?;
                }
            }
            Ok(())
        };
        Ok(self.pool.run(settle).await?)
    }
}

fn notice_of(row: &Row) -> StoreResult<(NoticeId, DeadNotice)> {
    let notice = DeadNotice {
        email_id: EmailId(get(row, 1)?),
        message_key: get(row, 2)?,
        reason: named(row, 3)?,
        error: get(row, 4)?,
        attempts: unsigned(row, 5)?,
        died_at: get(row, 6)?,
    };
    Ok((get(row, 0)?, notice))
}
