//! What `verify` looks at of messages.

use posthaste_core::port::Violation;
use rusqlite::Connection;

use super::super::state_row::named;
use super::super::verify::list;
use super::count::counted;
use crate::message::{CHECKS, Check, disagreements};

/// Checks messages against the promises.
pub(in crate::sqlite) fn check(
    connection: &Connection,
    now: i64,
    found: &mut Vec<Violation>,
) -> rusqlite::Result<()> {
    let rows = connection
        .prepare("SELECT status, count(*) FROM posthaste_retry_queue GROUP BY status")?
        .query_map([], |row| Ok((named(row, 0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    found.extend(disagreements(&counted(connection)?, &rows));
    for Check {
        invariant,
        what,
        detail,
        breach,
    } in &CHECKS
    {
        let sql =
            format!("SELECT hex(message_id), {detail} FROM posthaste_retry_queue WHERE {breach}");
        list(connection, "message", invariant, what, &sql, now, found)?;
    }
    Ok(())
}
