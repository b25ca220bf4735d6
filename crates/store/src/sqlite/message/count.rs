//! How many messages are in each state, from the counters that are written with the rows.

use std::collections::BTreeMap;

use posthaste_core::message::MessageStatus;
use posthaste_core::port::{MessageStatistics, StoreResult};
use rusqlite::Connection;

use super::super::state_row::{named, optional_time};
use super::super::writer::Flush;
use super::super::{SqliteStore, micros};
use crate::message::{Moves, added_up};

/// When the oldest that waits became due. `?1` is now.
pub(in crate::sqlite) const OLDEST_DUE: &str = "SELECT min(next_retry_at)
     FROM posthaste_retry_queue q
     WHERE status = 'pending' AND next_retry_at <= ?1";

impl SqliteStore {
    pub(in crate::sqlite) async fn all_message_statistics(&self) -> StoreResult<MessageStatistics> {
        let now = micros(posthaste_core::port::Store::now(self));
        self.desk
            .run(move |connection| {
                Ok(MessageStatistics {
                    by_status: counted(connection)?,
                    oldest_due: connection
                        .prepare_cached(OLDEST_DUE)?
                        .query_row([now], |row| optional_time(row, 0))?,
                })
            })
            .await
    }
}

/// What the counters say.
pub(super) fn counted(connection: &Connection) -> rusqlite::Result<BTreeMap<MessageStatus, u64>> {
    let counters = connection
        .prepare_cached("SELECT status, n FROM posthaste_message_count")?
        .query_map([], |row| Ok((named(row, 0)?, row.get(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(added_up(counters))
}

/// Counts what was moved.
pub(super) fn record(flush: &Flush<'_>, moves: &Moves) -> rusqlite::Result<()> {
    let mut statement =
        flush.prepare_cached("UPDATE posthaste_message_count SET n = n + ?2 WHERE status = ?1")?;
    for (status, n) in moves.iter().filter(|(_, n)| **n != 0) {
        statement.execute((status.as_str(), n))?;
    }
    Ok(())
}
