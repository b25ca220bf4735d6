//! Which recipients get nothing any more.

use posthaste_core::address::Address;
use posthaste_core::suppression::folded;
use rusqlite::{Connection, OptionalExtension as _};

use super::state_row::named;
use crate::ledger::Suppressed;

/// Whether anyone is on the list at all. Mostly nobody is.
pub(super) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM posthaste_suppression)")?
        .query_row([], |row| row.get(0))
}

/// Those of the recipients that are on the list of their email's owner.
pub(super) fn among<'a>(
    connection: &Connection,
    owner: &str,
    recipients: impl Iterator<Item = &'a Address>,
) -> rusqlite::Result<Suppressed> {
    if !any(connection)? {
        return Ok(Suppressed::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT reason FROM posthaste_suppression WHERE owner = ?1 AND address = ?2",
    )?;
    let mut found = Suppressed::new();
    for (place, address) in recipients.enumerate() {
        let reason = statement
            .query_row((owner, folded(address)), |row| named(row, 0))
            .optional()?;
        found.extend(reason.map(|reason| (place, reason)));
    }
    Ok(found)
}
