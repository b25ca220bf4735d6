//! Removes attempts and content of emails that stay.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Store as _, StoreResult};
use uuid::Uuid;

use super::writer::Flush;
use super::{PREFIX, SqliteStore, act, micros};
use crate::prune::before;
use crate::sweep::{self, PIECE, Sweep, Swept, smallest_id};

impl SqliteStore {
    pub(super) async fn prune_attempts(
        &self,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<Swept> {
        let sql = sweep::attempts(PREFIX);
        self.strip(&self.attempt_sweep, &sql, kept, most, strip_attempts)
            .await
    }

    pub(super) async fn prune_contents(
        &self,
        kept: Option<Duration>,
        most: usize,
    ) -> StoreResult<Swept> {
        let sql = sweep::content(PREFIX);
        self.strip(&self.content_sweep, &sql, kept, most, strip_content)
            .await
    }

    /// Looks for emails and takes something off them. Looking does not disturb the writer.
    async fn strip(
        &self,
        sweep: &Sweep,
        sql: &str,
        kept: Option<Duration>,
        most: usize,
        strip: fn(&Flush<'_>, EmailId, i64) -> rusqlite::Result<bool>,
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
        if round.found.is_empty() {
            return Ok(sweep.keep(&round, 0));
        }
        let found = round.found.clone();
        let stripped = self
            .writer
            .run(move |flush| {
                let mut stripped = 0;
                for id in &found {
                    stripped += u64::from(strip(flush, EmailId(*id), micros(ended))?);
                }
                Ok(stripped)
            })
            .await?;
        Ok(sweep.keep(&round, stripped))
    }

    async fn piece(
        &self,
        sql: &str,
        after: Uuid,
        ended: Timestamp,
    ) -> StoreResult<Vec<(Uuid, bool)>> {
        let sql = sql.replace('$', "?");
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&sql)?
                    .query_map((after, smallest_id(ended), micros(ended), PIECE), |row| {
                        Ok((row.get(0)?, row.get(1)?))
                    })?
                    .collect()
            })
            .await
    }
}

/// What has happened since it was found is looked at again.
fn strip_attempts(flush: &Flush<'_>, id: EmailId, ended: i64) -> rusqlite::Result<bool> {
    let marked = flush
        .prepare_cached(
            "UPDATE posthaste_email_log SET attempts_pruned_to = attempt_number
             WHERE id = ?1 AND status IN ('sent', 'cancelled') AND finished_at < ?2",
        )?
        .execute((id.0, ended))?;
    if marked > 0 {
        flush
            .prepare_cached("DELETE FROM posthaste_email_attempt WHERE email_id = ?1")?
            .execute([id.0])?;
    }
    Ok(marked > 0)
}

/// The same for content.
fn strip_content(flush: &Flush<'_>, id: EmailId, ended: i64) -> rusqlite::Result<bool> {
    let over = flush
        .prepare_cached("SELECT 1 FROM posthaste_email_log WHERE id = ?1 AND finished_at < ?2")?
        .exists((id.0, ended))?;
    if over {
        act::erase(flush, id)?;
    }
    Ok(over)
}
