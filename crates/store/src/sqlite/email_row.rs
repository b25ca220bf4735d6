//! The row of `email` as it is read back.

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, EmailRecord, Summary};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Lease, Started};
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;

use super::state_row::{STATE_COLUMNS, STATE_WIDTH, named, optional_time, state_of};
use super::{corrupt, from_micros, recipient_row, suppressed};

/// The columns of a record, state first, in the order in which `record_of` reads them.
pub(super) fn record_columns() -> String {
    format!(
        "{STATE_COLUMNS}, e.id, e.owner, e.message_key, e.template, e.priority, e.header_from,
         e.header_to, e.subject, e.recipients, e.metadata, e.policy, e.send_at, e.expires_at,
         e.created_at, e.erased_at, e.size_bytes, e.route"
    )
}

pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(at)?.as_str()?).map_err(corrupt)
}

/// Reads a record without its attempts.
pub(super) fn record_of(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<EmailRecord> {
    let state = state_of(row, 0)?;
    let at = STATE_WIDTH;
    let id = EmailId(row.get(at)?);
    let addresses: Vec<Address> = from_json(row, at + 8)?;
    Ok(EmailRecord {
        id,
        owner: row.get(at + 1)?,
        message_key: row.get(at + 2)?,
        template: row.get(at + 3)?,
        priority: named(row, at + 4)?,
        summary: Summary {
            from: row.get(at + 5)?,
            to: from_json(row, at + 6)?,
            subject: row.get(at + 7)?,
        },
        recipients: recipient_row::load(connection, id, addresses, state.status)?,
        metadata: from_json(row, at + 9)?,
        policy: from_json(row, at + 10)?,
        send_at: optional_time(row, at + 11)?,
        expires_at: optional_time(row, at + 12)?,
        created_at: from_micros(row.get(at + 13)?),
        erased_at: optional_time(row, at + 14)?,
        size_bytes: row.get(at + 15)?,
        route: row.get(at + 16)?,
        state,
        attempts: Vec::new(),
    })
}

/// What a sender needs of an email whose attempt began with this state.
pub(super) fn started_of(
    connection: &Connection,
    id: EmailId,
    state: State,
    now: Timestamp,
) -> rusqlite::Result<Started> {
    connection
        .prepare_cached(
            "SELECT envelope_from, recipients, policy, created_at, expires_at, content,
                 traceparent, route, owner
             FROM posthaste_email WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            let addresses = from_json(row, 1)?;
            let recipients = recipient_row::load(connection, id, addresses, state.status)?;
            let owner = row.get_ref(8)?.as_str()?;
            let to = recipients.iter().map(|recipient| &recipient.address);
            Ok(Started {
                lease: Lease {
                    id,
                    token: state.lease_token,
                },
                from: serde_json::from_value(row.get::<_, String>(0)?.into()).map_err(corrupt)?,
                suppressed: suppressed::among(connection, owner, to)?,
                recipients,
                policy: from_json(row, 2)?,
                created_at: from_micros(row.get(3)?),
                expires_at: optional_time(row, 4)?,
                content: Bytes::from(row.get::<_, Vec<u8>>(5)?),
                traceparent: row.get(6)?,
                route: row.get(7)?,
                state,
                now,
            })
        })
}
