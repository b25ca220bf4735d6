//! What operators do, with an audit entry each.

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Event, Refusal, Resolution};
use posthaste_core::port::{Acted, Action, Actor, AuditEntry, StoreResult};
use posthaste_core::status::Status;
use rusqlite::OptionalExtension;

use super::state_row::{apply_to, load};
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros, recipient_row};

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
                    .map(|id| {
                        let acted = act(flush, id, action, &actor)?;
                        let result = match &acted {
                            Acted::Done(status) => status.as_str(),
                            Acted::Unchanged(_) => "unchanged",
                            Acted::Refused(..) => "refused",
                            Acted::Erased => "erased",
                            Acted::Expired => "expired",
                            Acted::NotFound => return Ok(acted),
                        };
                        audit(flush, &actor.name, action.name(), &id.to_string(), result)?;
                        Ok(acted)
                    })
                    .collect()
            })
            .await
    }

    pub(super) async fn audit_entries(&self, most: usize) -> StoreResult<Vec<AuditEntry>> {
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT at, actor, action, subject, result FROM audit_log ORDER BY seq DESC LIMIT ?1",
                    )?
                    .query_map([most], |row| {
                        Ok(AuditEntry {
                            at: from_micros(row.get(0)?),
                            actor: row.get(1)?,
                            action: row.get(2)?,
                            subject: row.get(3)?,
                            result: row.get(4)?,
                        })
                    })?
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
        .prepare_cached("INSERT INTO audit_log (at, actor, action, subject, result) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((micros(flush.now()), actor, action, subject, result))
        .map(drop)
}

fn act(
    flush: &mut Flush<'_>,
    id: EmailId,
    action: Action,
    actor: &Actor,
) -> rusqlite::Result<Acted> {
    let found: Option<(String, bool, Option<i64>)> = flush
        .prepare_cached("SELECT owner, erased_at IS NOT NULL, expires_at FROM email WHERE id = ?1")?
        .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((owner, erased, expires_at)) = found else {
        return Ok(Acted::NotFound);
    };
    if actor.owner.as_ref().is_some_and(|only| *only != owner) {
        return Ok(Acted::NotFound);
    }
    let Some(state) = load(flush, id)? else {
        return Ok(Acted::NotFound);
    };
    let event = match action {
        Action::Cancel => Event::Cancel,
        Action::Retry => Event::Replay,
        Action::Resolve(Resolution::Sent) => match recipient_row::first_reason(flush, id)? {
            Some(reason) => Event::ResolveInPart(reason),
            None => Event::Resolve(Resolution::Sent),
        },
        Action::Resolve(resolution) => Event::Resolve(resolution),
        Action::Discard => Event::Discard,
        Action::Restore => Event::Restore,
        Action::Erase => return erase(flush, id, state.status, erased),
    };
    let sends = matches!(event, Event::Replay | Event::Resolve(Resolution::Retry));
    if sends && erased {
        return Ok(Acted::Erased);
    }
    if sends && expires_at.is_some_and(|at| at <= micros(flush.now())) {
        return Ok(Acted::Expired);
    }
    Ok(match apply_to(flush, id, &state, &event)? {
        Ok(applied) => Acted::Done(applied.next.status),
        // Doing it twice does it once, and says so.
        Err(refusal) => match (action, state.status) {
            (Action::Retry, _) if refusal == Refusal::InProgress => Acted::Unchanged(state.status),
            (Action::Discard, Status::Discarded) | (Action::Restore, Status::Dead) => {
                Acted::Unchanged(state.status)
            }
            (_, status) => Acted::Refused(refusal, status),
        },
    })
}

/// Removes body and addresses. What could still be sent is not erased.
fn erase(flush: &Flush<'_>, id: EmailId, status: Status, erased: bool) -> rusqlite::Result<Acted> {
    if erased {
        return Ok(Acted::Unchanged(status));
    }
    if !status.is_terminal() {
        return Ok(Acted::Refused(Refusal::NotAllowed(status), status));
    }
    flush.execute(
        "UPDATE email SET content = x'', subject = '', header_from = '', header_to = '[]',
             recipients = '[]', first_recipient = '', metadata = '{}', envelope_from = '',
             erased_at = ?2
         WHERE id = ?1",
        (id.0, micros(flush.now())),
    )?;
    // Who accepted it stays on record: it explains attempts that were sent more than once.
    flush.execute(
        "UPDATE recipient SET address = '', detail = NULL WHERE email_id = ?1",
        [id.0],
    )?;
    flush.execute("DELETE FROM capture WHERE email_id = ?1", [id.0])?;
    // Replies and errors often repeat the address.
    flush.execute(
        "UPDATE email_attempt SET error = NULL, reply = NULL WHERE email_id = ?1",
        [id.0],
    )?;
    flush.execute(
        "UPDATE email_log SET last_error = NULL WHERE id = ?1",
        [id.0],
    )?;
    Ok(Acted::Done(status))
}
