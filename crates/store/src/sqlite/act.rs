//! What operators do, with an audit entry each.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Acted, Action, Actor, AuditEntry, AuditFilter, StoreResult};

use super::writer::Flush;
use super::{SqliteStore, alert, from_micros, micros};
use crate::ledger;

impl SqliteStore {
    pub(super) async fn act_on(
        &self,
        ids: Vec<EmailId>,
        action: Action,
        actor: &Actor,
    ) -> StoreResult<Vec<Acted>> {
        let actor = actor.clone();
        self.writer
            .run(move |flush| {
                ids.iter()
                    .copied()
                    .map(|id| ledger::act(flush, id, action, &actor))
                    .collect()
            })
            .await
    }

    pub(super) async fn audit_entries(&self, filter: &AuditFilter) -> StoreResult<Vec<AuditEntry>> {
        let filter = filter.clone();
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT seq, at, actor, action, subject, filter, count, result
                         FROM posthaste_audit_log
                         WHERE (?1 IS NULL OR actor = ?1) AND (?2 IS NULL OR action = ?2)
                           AND (?3 IS NULL OR subject = ?3) AND (?4 IS NULL OR seq < ?4)
                         ORDER BY seq DESC LIMIT ?5",
                    )?
                    .query_map(
                        (
                            filter.actor,
                            filter.action,
                            filter.subject,
                            filter.after,
                            filter.limit,
                        ),
                        |row| {
                            Ok(AuditEntry {
                                number: row.get(0)?,
                                at: from_micros(row.get(1)?),
                                actor: row.get(2)?,
                                action: row.get(3)?,
                                subject: row.get(4)?,
                                filter: row.get(5)?,
                                count: row.get(6)?,
                                result: row.get(7)?,
                            })
                        },
                    )?
                    .collect()
            })
            .await
    }
}

/// Writes an audit entry.
pub(super) fn audit(
    flush: &Flush<'_>,
    actor: &str,
    action: &str,
    subject: &str,
    result: &str,
) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_audit_log (at, actor, action, subject, result)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((micros(flush.now()), actor, action, subject, result))
        .map(drop)
}

/// Removes body and addresses.
pub(super) fn erase(flush: &Flush<'_>, id: EmailId) -> rusqlite::Result<()> {
    flush.execute(
        "UPDATE posthaste_email SET content = x'', subject = '', header_from = '', header_to = '[]',
             recipients = '[]', first_recipient = '', metadata = '{}', envelope_from = '',
             erased_at = ?2
         WHERE id = ?1",
        (id.0, micros(flush.now())),
    )?;
    // Who accepted it stays on record: it explains attempts that were sent more than once.
    flush.execute(
        "UPDATE posthaste_recipient SET address = '', detail = NULL WHERE email_id = ?1",
        [id.0],
    )?;
    flush.execute("DELETE FROM posthaste_capture WHERE email_id = ?1", [id.0])?;
    // Replies and errors often repeat the address.
    flush.execute(
        "UPDATE posthaste_email_attempt SET error = NULL, reply = NULL WHERE email_id = ?1",
        [id.0],
    )?;
    flush.execute(
        "UPDATE posthaste_email_log SET last_error = NULL WHERE id = ?1",
        [id.0],
    )?;
    flush.execute(
        "UPDATE posthaste_event SET error = NULL WHERE email_id = ?1",
        [id.0],
    )?;
    alert::erase(flush, id)
}
