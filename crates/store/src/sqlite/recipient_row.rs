//! Where each recipient stands. Rows exist only for emails whose recipients differ.

use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, Recipient, RecipientStatus};
use posthaste_core::status::{DeadReason, Status};
use rusqlite::{Connection, params};

use super::state_row::{named, optional_name};
use super::{corrupt, writer::Flush};

fn load_rows(connection: &Connection, id: EmailId) -> rusqlite::Result<Vec<Recipient>> {
    connection
        .prepare_cached(
            "SELECT address, status, detail, reason FROM posthaste_recipient
             WHERE email_id = ?1 ORDER BY position",
        )?
        .query_map([id.0], |row| {
            Ok(Recipient {
                address: serde_json::from_value(row.get::<_, String>(0)?.into())
                    .map_err(corrupt)?,
                status: named(row, 1)?,
                detail: row.get(2)?,
                reason: optional_name(row, 3)?,
            })
        })?
        .collect()
}

/// Every recipient: from its rows, or all alike as the email's own state tells.
pub(super) fn load(
    connection: &Connection,
    id: EmailId,
    addresses: Vec<Address>,
    status: Status,
) -> rusqlite::Result<Vec<Recipient>> {
    if addresses.len() > 1 {
        let rows = load_rows(connection, id)?;
        if !rows.is_empty() {
            return Ok(rows);
        }
    }
    let common = match status {
        Status::Sent => RecipientStatus::Accepted,
        Status::Dead | Status::Discarded => RecipientStatus::Dead,
        _ => RecipientStatus::Waiting,
    };
    Ok(addresses
        .into_iter()
        .map(|address| Recipient {
            status: common,
            ..Recipient::waiting(address)
        })
        .collect())
}

/// Replaces the rows of an email.
pub(super) fn save(
    flush: &Flush<'_>,
    id: EmailId,
    recipients: &[Recipient],
) -> rusqlite::Result<()> {
    let mut statement = flush.prepare_cached(
        "INSERT INTO posthaste_recipient (email_id, position, address, status, detail, reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET status = excluded.status, detail = excluded.detail,
             reason = excluded.reason",
    )?;
    for (position, recipient) in recipients.iter().enumerate() {
        statement.execute(params![
            id.0,
            position,
            recipient.address.as_str(),
            recipient.status.as_str(),
            recipient.detail,
            recipient.reason.map(|reason| reason.as_str()),
        ])?;
    }
    Ok(())
}

/// Those that were given up wait again: for a replay. If nobody had accepted it, all stand the
/// same again, and need no rows.
pub(super) fn revive(flush: &Flush<'_>, id: EmailId) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "DELETE FROM posthaste_recipient WHERE email_id = ?1 AND NOT EXISTS
                 (SELECT 1 FROM posthaste_recipient WHERE email_id = ?1 AND status = 'accepted')",
        )?
        .execute([id.0])?;
    flush
        .prepare_cached(
            "UPDATE posthaste_recipient SET status = 'waiting', reason = NULL
             WHERE email_id = ?1 AND status = 'dead'",
        )?
        .execute([id.0])
        .map(drop)
}

/// All that still wait are given up, because the email is.
pub(super) fn give_up_waiting(
    flush: &Flush<'_>,
    id: EmailId,
    reason: Option<DeadReason>,
) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_recipient SET status = 'dead', reason = ?2
             WHERE email_id = ?1 AND status = 'waiting'",
        )?
        .execute((id.0, reason.map(DeadReason::as_str)))
        .map(drop)
}

/// All that still wait are accepted: for an operator who knows that it arrived.
pub(super) fn accept_waiting(flush: &Flush<'_>, id: EmailId) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_recipient SET status = 'accepted'
             WHERE email_id = ?1 AND status = 'waiting'",
        )?
        .execute([id.0])
        .map(drop)
}
