//! The row of `email` as it is read back.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, EmailRecord, Summary};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Lease, Started, StoreResult};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::error::corrupt;
use super::recipient_row::{self, address_of};
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, get, named, state_of};
use super::suppressed::{self, SuppressionList};

/// The columns of a record, state first, in the order in which `record_of` reads them.
pub(super) fn record_columns() -> String {
    format!(
        "{STATE_COLUMNS}, e.id, e.owner, e.message_key, e.template, e.priority, e.header_from,
         e.header_to::text, e.subject, e.recipients::text, e.metadata::text, e.policy::text,
         e.send_at, e.expires_at, e.created_at, e.erased_at, e.size_bytes, e.route"
    )
}

/// Reads a value that is kept as JSON; the query casts it to text.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row, at: usize) -> StoreResult<T> {
    serde_json::from_str(get(row, at)?).map_err(corrupt)
}

/// Reads a record without its attempts, and with all recipients alike.
pub(super) fn record_of(row: &Row) -> StoreResult<EmailRecord> {
    let state = state_of(row, 0)?;
    let at = STATE_WIDTH;
    Ok(EmailRecord {
        id: EmailId(get(row, at)?),
        owner: get(row, at + 1)?,
        message_key: get(row, at + 2)?,
        template: get(row, at + 3)?,
        priority: named(row, at + 4)?,
        summary: Summary {
            from: get(row, at + 5)?,
            to: from_json(row, at + 6)?,
            subject: get(row, at + 7)?,
        },
        recipients: recipient_row::alike(from_json(row, at + 8)?, state.status),
        metadata: from_json(row, at + 9)?,
        policy: from_json(row, at + 10)?,
        send_at: get(row, at + 11)?,
        expires_at: get(row, at + 12)?,
        created_at: get(row, at + 13)?,
        erased_at: get(row, at + 14)?,
        size_bytes: u64::try_from(get::<i64>(row, at + 15)?).map_err(corrupt)?,
        route: get(row, at + 16)?,
        state,
        attempts: Vec::new(),
    })
}

/// Reads what senders need.
const READ_STARTED: &str =
    "SELECT id, envelope_from, recipients::text, policy::text, created_at, expires_at, content,
         traceparent, route, owner, EXISTS (SELECT 1 FROM suppression)
     FROM email WHERE id = ANY($1)";

/// So many emails are read at a time if more are too many.
const FEW: usize = 4;

impl PostgresStore {
    /// What senders need of emails whose attempts began with these states, in their order. One
    /// that is gone is left out.
    pub(super) async fn read_started(
        &self,
        begun: Vec<(EmailId, State)>,
        now: Timestamp,
    ) -> StoreResult<Vec<Started>> {
        if begun.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = begun.iter().map(|(id, _)| id.0).collect();
        let rows = match self.pool.query(READ_STARTED, &[&ids]).await {
            Ok(rows) => rows,
            // Together they may be too large for the time that an answer may take.
            Err(_) => {
                let mut rows = Vec::with_capacity(ids.len());
                for some in ids.chunks(FEW) {
                    rows.extend(self.pool.query(READ_STARTED, &[&some]).await?);
                }
                rows
            }
        };
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(EmailId(get(&row, 0)?), row);
        }
        let mut all = Vec::with_capacity(begun.len());
        let mut owners = Vec::with_capacity(begun.len());
        let mut anyone_is_suppressed = false;
        for (id, state) in begun {
            if let Some(row) = found.remove(&id) {
                all.push(started_of(&row, id, state, now)?);
                owners.push(get::<String>(&row, 9)?);
                anyone_is_suppressed = get(&row, 10)?;
            }
        }
        let recipients = all
            .iter_mut()
            .map(|started| (started.lease.id, &mut started.recipients));
        recipient_row::tell_apart(&self.pool, recipients).await?;
        // Mostly nobody is.
        if anyone_is_suppressed {
            self.tell_suppressed(&mut all, &owners).await?;
        }
        Ok(all)
    }

    /// Says of emails of these owners which of their recipients get nothing any more.
    async fn tell_suppressed(&self, all: &mut [Started], owners: &[String]) -> StoreResult<()> {
        let mut asked = suppressed::Asked::default();
        for (started, owner) in all.iter().zip(owners) {
            asked.add(owner, started.recipients.iter().map(|to| &to.address));
        }
        let values: super::pool::Values<'_> = &[&asked.owners, &asked.addresses];
        let rows = self.pool.query(suppressed::READ, values).await?;
        let list = SuppressionList::of(&rows)?;
        for (started, owner) in all.iter_mut().zip(owners) {
            let to = started.recipients.iter().map(|to| &to.address);
            started.suppressed = list.among(owner, to);
        }
        Ok(())
    }
}

fn started_of(row: &Row, id: EmailId, state: State, now: Timestamp) -> StoreResult<Started> {
    Ok(Started {
        lease: Lease {
            id,
            token: state.lease_token,
        },
        from: address_of(row, 1)?,
        recipients: recipient_row::alike(from_json(row, 2)?, state.status),
        policy: from_json(row, 3)?,
        created_at: get(row, 4)?,
        expires_at: get(row, 5)?,
        // The one copy: the row shares its memory with everything else the server sent.
        content: Bytes::copy_from_slice(get(row, 6)?),
        traceparent: get(row, 7)?,
        route: get(row, 8)?,
        suppressed: Vec::new(),
        state,
        now,
    })
}
