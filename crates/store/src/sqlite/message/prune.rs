//! Removes messages that are over for long enough. Never one that waits, whatever its age.

use std::time::Duration;

use posthaste_core::message::MessageStatus;
use posthaste_core::port::{MessageRetention, StoreResult};

use super::super::prune::return_pages;
use super::super::writer::Flush;
use super::super::{SqliteStore, micros};
use super::count::record;
use crate::message::{Moves, count};

impl SqliteStore {
    pub(in crate::sqlite) async fn prune_old_messages(
        &self,
        retention: MessageRetention,
        most: usize,
    ) -> StoreResult<u64> {
        self.writer
            .run(move |flush| {
                let mut removed = 0;
                for (status, age) in [
                    (MessageStatus::Retried, retention.retried),
                    (MessageStatus::Failed, retention.failed),
                    (MessageStatus::Discarded, retention.failed),
                ] {
                    removed += remove(flush, status, age, most - removed)?;
                }
                return_pages(flush)?;
                Ok(removed as u64)
            })
            .await
    }
}

/// Removes messages of one state that ended long enough ago.
fn remove(
    flush: &Flush<'_>,
    status: MessageStatus,
    age: Duration,
    most: usize,
) -> rusqlite::Result<usize> {
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    let before = micros(flush.now()).saturating_sub(age);
    let removed = flush
        .prepare_cached(
            "DELETE FROM posthaste_retry_queue WHERE id IN
                 (SELECT id FROM posthaste_retry_queue WHERE status = ?1 AND finished_at < ?2
                  ORDER BY finished_at LIMIT ?3)",
        )?
        .execute((status.as_str(), before, most))?;
    let mut moves = Moves::new();
    for _ in 0..removed {
        count(&mut moves, Some(status), None);
    }
    record(flush, &moves)?;
    Ok(removed)
}
