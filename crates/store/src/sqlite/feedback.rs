//! What providers say later.

use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::feedback::{ProviderEvent, Recorded};
use posthaste_core::port::StoreResult;
use rusqlite::{Connection, OptionalExtension};

use super::email_row::from_json;
use super::state_row::{named, optional_name};
use super::{SqliteStore, corrupt, suppression};
use crate::feedback::{Known, Subject, record};

/// Emails with an attempt that the provider knows by this name, and whether the email was replayed
/// since.
pub(super) const NAMED: &str = "SELECT a.email_id, min(a.number <= l.budget_from)
     FROM posthaste_email_attempt a JOIN posthaste_email_log l ON l.id = a.email_id
     WHERE a.provider_id = ?1 AND a.transport = ?2 GROUP BY a.email_id";

impl SqliteStore {
    pub(super) async fn record_all_feedback(
        &self,
        transport: &str,
        events: Vec<ProviderEvent>,
    ) -> StoreResult<Vec<Recorded>> {
        let transport = transport.to_owned();
        self.writer
            .run(move |flush| {
                let known = look_up(flush, &transport, &events)?;
                let mut outcome = record(flush, &transport, &events, known)?;
                for (event, suppression) in std::mem::take(&mut outcome.suppressions) {
                    if suppression::put(flush, &suppression)?.is_change() {
                        outcome.was_put(event);
                    }
                }
                Ok(outcome.recorded)
            })
            .await
    }
}

fn look_up(
    connection: &Connection,
    transport: &str,
    events: &[ProviderEvent],
) -> rusqlite::Result<Known> {
    let mut known = Known::default();
    for event in events {
        let named: Vec<(EmailId, bool)> = connection
            .prepare_cached(NAMED)?
            .query_map((&event.provider_id, transport), |row| {
                Ok((EmailId(row.get(0)?), row.get(1)?))
            })?
            .collect::<Result<_, _>>()?;
        let mut ids: Vec<EmailId> = event.email_id.into_iter().collect();
        for (id, is_outdated) in named {
            known.add_name(event.provider_id.clone(), id, is_outdated);
            ids.push(id);
        }
        for id in ids {
            if let Some(subject) = subject_of(connection, id)? {
                known.add(id, subject);
            }
        }
    }
    Ok(known)
}

fn subject_of(connection: &Connection, id: EmailId) -> rusqlite::Result<Option<Subject>> {
    let rows: Vec<Recipient> = connection
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
        .collect::<Result<_, _>>()?;
    connection
        .prepare_cached(
            "SELECT owner, recipients, recipient_count, erased_at IS NOT NULL
             FROM posthaste_email WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            let (owner, addresses) = (row.get(0)?, from_json(row, 1)?);
            Ok(Subject::new(
                owner,
                addresses,
                row.get(2)?,
                row.get(3)?,
                rows,
            ))
        })
        .optional()
}
