//! What is to be told outside of the store.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::State;
use posthaste_core::port::{DeadNotice, NoticeId, StoreResult};
use posthaste_core::status::DeadReason;

use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};

impl SqliteStore {
    pub(super) async fn take_untold(
        &self,
        most: usize,
        lease: Duration,
    ) -> StoreResult<Vec<(NoticeId, DeadNotice)>> {
        // Most of the time there is nothing: look before disturbing the writer.
        let any = self.readers.run(|connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM posthaste_event)")?
                .query_row([], |row| row.get::<_, bool>(0))
        });
        if !any.await? {
            return Ok(Vec::new());
        }
        self.writer
            .run(move |flush| {
                let taken = untold(flush, most)?;
                let until = flush.now().checked_add(lease);
                let until = until.unwrap_or(posthaste_core::Timestamp::MAX);
                for (seq, _) in &taken {
                    lock(flush, *seq, Some(micros(until)))?;
                }
                Ok(taken)
            })
            .await
    }

    pub(super) async fn settle_all_notices(
        &self,
        told: Vec<NoticeId>,
        untold: Vec<NoticeId>,
    ) -> StoreResult<()> {
        self.writer
            .run(move |flush| {
                for seq in &told {
                    flush
                        .prepare_cached("DELETE FROM posthaste_event WHERE seq = ?1")?
                        .execute([seq])?;
                }
                for seq in &untold {
                    lock(flush, *seq, None)?;
                }
                Ok(())
            })
            .await
    }
}

fn untold(flush: &Flush<'_>, most: usize) -> rusqlite::Result<Vec<(NoticeId, DeadNotice)>> {
    flush
        .prepare_cached(
            "SELECT v.seq, v.email_id, coalesce(e.message_key, ''), v.reason, v.error, v.attempts,
                 v.at
             FROM posthaste_event v LEFT JOIN posthaste_email e ON e.id = v.email_id
             WHERE v.locked_until IS NULL OR v.locked_until <= ?1
             ORDER BY v.seq LIMIT ?2",
        )?
        .query_map((micros(flush.now()), most), |row| {
            let notice = DeadNotice {
                email_id: EmailId(row.get(1)?),
                message_key: row.get(2)?,
                reason: named(row, 3)?,
                error: row.get(4)?,
                attempts: row.get(5)?,
                died_at: from_micros(row.get(6)?),
            };
            Ok((row.get(0)?, notice))
        })?
        .collect()
}

fn lock(flush: &Flush<'_>, seq: NoticeId, until: Option<i64>) -> rusqlite::Result<()> {
    flush
        .prepare_cached("UPDATE posthaste_event SET locked_until = ?2 WHERE seq = ?1")?
        .execute((seq, until))
        .map(drop)
}

/// The email died with this state.
pub(super) fn insert_death(flush: &Flush<'_>, id: EmailId, state: &State) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_event (kind, email_id, at, reason, error, attempts)
             VALUES ('email_dead', ?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            id.0,
            micros(flush.now()),
            state.dead_reason.map_or("", DeadReason::as_str),
            &state.last_error,
            state.attempt_count,
        ))
        .map(drop)
}
