//! New emails.

use posthaste_core::email::NewEmail;
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Accepted, StoreResult};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::state_row::{self, named};
use super::writer::Flush;
use super::{SqliteStore, corrupt, micros};
use crate::ledger::rounded_up;

impl SqliteStore {
    pub(super) async fn accept_all(
        &self,
        emails: Vec<NewEmail>,
        ticketed: bool,
    ) -> StoreResult<Vec<StoreResult<Accepted>>> {
        // Each entry stands for itself: one that fails spoils no other.
        self.writer
            .run(move |flush| {
                Ok(emails
                    .iter()
                    .map(|email| flush.isolated(|flush| accept(flush, email, ticketed)))
                    .collect())
            })
            .await
    }

    pub(super) async fn accepted_earlier(
        &self,
        owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>> {
        let (owner, message_key) = (owner.to_owned(), message_key.to_owned());
        // A caller waits for it who hands an email in, so it does not wait behind people's queries.
        self.readers
            .run(move |connection| {
                existing(connection, &owner, &message_key, &payload_hash).optional()
            })
            .await
    }
}

fn accept(flush: &mut Flush<'_>, email: &NewEmail, ticketed: bool) -> rusqlite::Result<Accepted> {
    let now = flush.now();
    let send_at = email.send_at.map(rounded_up);
    let recipients = &email.envelope.recipients;
    let first = recipients
        .first()
        .map(posthaste_core::address::Address::folded)
        .unwrap_or_default();
    let inserted = flush
        .prepare_cached(
            "INSERT INTO email (id, owner, message_key, payload_hash, template, priority,
                 envelope_from, recipients, recipient_count, first_recipient, header_from,
                 header_to, subject, metadata, policy, send_at, expires_at, traceparent,
                 created_at, size_bytes, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19, ?20, ?21)
             ON CONFLICT (owner, message_key) DO NOTHING",
        )?
        .execute(params![
            email.id.0,
            email.owner,
            email.message_key,
            email.payload_hash.as_slice(),
            email.template,
            email.priority.as_str(),
            email.envelope.from.as_str(),
            json(recipients)?,
            recipients.len(),
            first,
            email.summary.from,
            json(&email.summary.to)?,
            email.summary.subject,
            json(&email.metadata)?,
            json(&email.policy)?,
            send_at.map(micros),
            email.expires_at.map(micros),
            email.traceparent,
            micros(now),
            email.content.len(),
            &email.content[..],
        ])?;
    if inserted == 0 {
        return existing(flush, &email.owner, &email.message_key, &email.payload_hash);
    }
    let due = send_at.unwrap_or(now);
    let mut state = State::accepted(due, email.max_attempts);
    // The caller publishes a ticket right after the commit. If it cannot, it says so; if it
    // dies before it can, the sender finds the email by this time being long ago.
    state.last_queued_at = (ticketed && due <= now).then_some(now);
    state_row::insert(flush, email.id, &state)?;
    Ok(Accepted::Created)
}

fn existing(
    connection: &Connection,
    owner: &str,
    message_key: &str,
    payload_hash: &[u8; 32],
) -> rusqlite::Result<Accepted> {
    connection
        .prepare_cached(
            "SELECT e.id, e.payload_hash, l.status FROM email e JOIN email_log l ON l.id = e.id
             WHERE e.owner = ?1 AND e.message_key = ?2",
        )?
        .query_row((owner, message_key), |row| {
            let id = posthaste_core::email::EmailId(row.get(0)?);
            let hash: [u8; 32] = row.get(1)?;
            Ok(if hash == *payload_hash {
                Accepted::Replayed(id, named(row, 2)?)
            } else {
                Accepted::KeyConflict(id)
            })
        })
}

pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(corrupt)
}
