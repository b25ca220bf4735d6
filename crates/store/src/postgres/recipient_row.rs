//! Where each recipient stands. Rows exist only for emails whose recipients differ.

use std::collections::HashMap;

use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, Recipient, RecipientStatus};
use posthaste_core::port::StoreResult;
use posthaste_core::status::Status;
use tokio_postgres::Row;
use uuid::Uuid;

use super::error::corrupt;
use super::pool::Pool;
use super::state_row::{get, named, optional_name};

/// Every recipient, all alike, as the email's own state tells.
pub(super) fn alike(addresses: Vec<Address>, status: Status) -> Vec<Recipient> {
    let common = match status {
        Status::Sent => RecipientStatus::Accepted,
        Status::Dead | Status::Discarded => RecipientStatus::Dead,
        _ => RecipientStatus::Waiting,
    };
    addresses
        .into_iter()
        .map(|address| Recipient {
            status: common,
            ..Recipient::waiting(address)
        })
        .collect()
}

/// Puts the recipients that differ in the place of those that were taken to be alike: one query
/// for all emails, and none if each has only one recipient.
pub(super) async fn tell_apart(
    pool: &Pool,
    emails: impl Iterator<Item = (EmailId, &mut Vec<Recipient>)>,
) -> StoreResult<()> {
    let mut several: HashMap<Uuid, &mut Vec<Recipient>> = emails
        .filter(|(_, recipients)| recipients.len() > 1)
        .map(|(id, recipients)| (id.0, recipients))
        .collect();
    if several.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = several.keys().copied().collect();
    let rows = pool
        .query(
            "SELECT email_id, address, status, detail, reason FROM recipient
             WHERE email_id = ANY($1) ORDER BY email_id, position",
            &[&ids],
        )
        .await?;
    let mut present = None;
    for row in &rows {
        let id: Uuid = get(row, 0)?;
        let Some(recipients) = several.get_mut(&id) else {
            continue;
        };
        if present.replace(id) != Some(id) {
            recipients.clear();
        }
        recipients.push(recipient_of(row)?);
    }
    Ok(())
}

fn recipient_of(row: &Row) -> StoreResult<Recipient> {
    Ok(Recipient {
        address: address_of(row, 1)?,
        status: named(row, 2)?,
        detail: get(row, 3)?,
        reason: optional_name(row, 4)?,
    })
}

/// Reads an address that was checked when it was written, and may have been erased since.
pub(super) fn address_of(row: &Row, at: usize) -> StoreResult<Address> {
    serde_json::from_value(get::<String>(row, at)?.into()).map_err(corrupt)
}
