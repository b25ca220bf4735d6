//! Reading emails.

use bytes::Bytes;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{DeadGroup, EmailFilter, StoreResult};
use posthaste_core::status::Status;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params_from_iter};

use super::email_row::{record_columns, record_of};
use super::{PREFIX, SqliteStore, attempt_row, from_micros, micros};
use crate::dead_group;

impl SqliteStore {
    pub(super) async fn find_email(&self, id: EmailId) -> StoreResult<Option<EmailRecord>> {
        self.desk
            .run(move |connection| {
                let columns = record_columns();
                let found = connection
                    .prepare_cached(&format!(
                        "SELECT {columns} FROM posthaste_email e
                         JOIN posthaste_email_log l ON l.id = e.id WHERE e.id = ?1"
                    ))?
                    .query_row([id.0], |row| record_of(connection, row))
                    .optional()?;
                let Some(mut record) = found else {
                    return Ok(None);
                };
                record.attempts = attempt_row::all_of(connection, id)?;
                Ok(Some(record))
            })
            .await
    }

    pub(super) async fn content_of(&self, id: EmailId) -> StoreResult<Option<Bytes>> {
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached("SELECT content FROM posthaste_email WHERE id = ?1")?
                    .query_row([id.0], |row| row.get::<_, Vec<u8>>(0).map(Bytes::from))
                    .optional()
            })
            .await
    }

    pub(super) async fn attempts_of_all(
        &self,
        ids: &[EmailId],
    ) -> StoreResult<Vec<(EmailId, AttemptRecord)>> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        self.desk
            .run(move |connection| {
                let mut found = Vec::new();
                for id in ids {
                    let attempts = attempt_row::all_of(connection, id)?;
                    found.extend(attempts.into_iter().map(|attempt| (id, attempt)));
                }
                Ok(found)
            })
            .await
    }

    pub(super) async fn list_emails(&self, filter: &EmailFilter) -> StoreResult<Vec<EmailRecord>> {
        let (sql, values) = list_query(filter);
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&sql)?
                    .query_map(params_from_iter(values), |row| record_of(connection, row))?
                    .collect()
            })
            .await
    }

    pub(super) async fn groups(&self, owner: Option<&str>) -> StoreResult<Vec<DeadGroup>> {
        let owner = owner.map(str::to_owned);
        self.desk
            .run(move |connection| {
                let sql = dead_group::query(PREFIX, owner.is_some().then_some("?1"));
                let rows = connection
                    .prepare_cached(&sql)?
                    .query_map(params_from_iter(owner), |row| {
                        Ok(DeadGroup {
                            fingerprint: row.get(0)?,
                            count: row.get(1)?,
                            first_seen: from_micros(row.get(2)?),
                            last_seen: from_micros(row.get(3)?),
                            sample: row.get(4)?,
                        })
                    })?
                    .collect::<Result<_, _>>()?;
                Ok(dead_group::merged(rows))
            })
            .await
    }
}

/// The query for a filter. The text is put together from fixed pieces; values are always bound.
fn list_query(filter: &EmailFilter) -> (String, Vec<Value>) {
    let (conditions, mut values) = matching(filter);
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    let limit = values.len();
    let columns = record_columns();
    let sql = format!(
        "SELECT {columns} FROM posthaste_email_log l JOIN posthaste_email e ON e.id = l.id
         WHERE {conditions} ORDER BY l.id DESC LIMIT ?{limit}"
    );
    (sql, values)
}

/// Where emails that match are looked for. What only states tell is not looked up in both tables.
pub(super) fn source(filter: &EmailFilter) -> &'static str {
    let states_do = filter.owner.is_none()
        && filter.template.is_none()
        && filter.since.is_none()
        && filter.q.is_none();
    if states_do {
        "posthaste_email_log l"
    } else {
        "posthaste_email_log l JOIN posthaste_email e ON e.id = l.id"
    }
}

/// What emails must fulfil to match, as a condition and the values bound in it.
pub(super) fn matching(filter: &EmailFilter) -> (String, Vec<Value>) {
    let mut conditions = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    conditions.extend(in_status(&filter.statuses));
    if let Some(owner) = &filter.owner {
        // The plus keeps SQLite from collecting and sorting all of an owner's emails.
        conditions.push(format!("+e.owner = {}", bind(owner.clone().into())));
    }
    if !filter.ids.is_empty() {
        // One value, however many ids: the statement stays the same.
        let ids: Vec<_> = filter
            .ids
            .iter()
            .map(|id| id.0.simple().to_string())
            .collect();
        let place = bind(serde_json::json!(ids).to_string().into());
        conditions.push(format!(
            "l.id IN (SELECT unhex(value) FROM json_each({place}))"
        ));
    }
    if let Some(template) = &filter.template {
        conditions.push(format!("e.template = {}", bind(template.clone().into())));
    }
    if let Some(fingerprint) = &filter.fingerprint {
        let place = bind(fingerprint.clone().into());
        conditions.push(dead_group::condition(fingerprint, &place));
    }
    if let Some(since) = filter.since {
        conditions.push(format!("e.created_at >= {}", bind(micros(since).into())));
    }
    if let Some(after) = filter.after {
        conditions.push(format!(
            "l.id < {}",
            bind(after.0.into_bytes().to_vec().into())
        ));
    }
    if let Some(to) = &filter.to {
        let place = bind(to.to_lowercase().into());
        conditions.push(format!("l.id IN ({})", sent_to(&place)));
    }
    if let Some(q) = &filter.q {
        conditions.push(search(q, &mut bind));
    }
    if conditions.is_empty() {
        conditions.push("true".to_owned());
    }
    (conditions.join(" AND "), values)
}

/// One state is compared as it stands, so that SQLite sees which partial index holds it, and several
/// are one after the other: sent emails are in none of those indexes, and are not to be walked through.
/// Failed ones are in two.
fn in_status(statuses: &[Status]) -> Option<String> {
    match statuses {
        [] => None,
        [status @ (Status::Dead | Status::Discarded | Status::Cancelled | Status::Sent)] => {
            Some(format!("l.status = '{status}'"))
        }
        several if several.contains(&Status::Sent) => {
            let names: Vec<_> = several.iter().map(|s| format!("'{s}'")).collect();
            Some(format!("l.status IN ({})", names.join(", ")))
        }
        several => {
            let each: Vec<_> = several.iter().flat_map(|status| held_by(*status)).collect();
            Some(format!("l.id IN ({})", each.join(" UNION ALL ")))
        }
    }
}

/// The queries for the ids of emails in a state, by each index that holds some of them.
fn held_by(status: Status) -> Vec<String> {
    let ids = "SELECT id FROM posthaste_email_log WHERE";
    let waits = format!("{ids} status = '{status}' AND waiting_for IS NULL");
    match status {
        Status::Failed => vec![waits, format!("{ids} waiting_for IS NOT NULL")],
        Status::Sending => vec![format!(
            "SELECT id FROM posthaste_email_log INDEXED BY posthaste_email_log_lease
             WHERE locked_until IS NOT NULL AND status = '{status}'"
        )],
        status if status.is_terminal() => vec![format!("{ids} status = '{status}'")],
        _ => vec![waits],
    }
}

/// The ids of emails to an address.
fn sent_to(place: &str) -> String {
    format!(
        "SELECT id FROM posthaste_email WHERE first_recipient = {place}
         UNION ALL
         SELECT id FROM posthaste_email WHERE recipient_count > 1 AND EXISTS
             (SELECT 1 FROM json_each(recipients) WHERE lower(value) = {place})"
    )
}

/// An id, a key, an exact address or the start of a subject.
fn search(q: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    if let Ok(id) = q.trim().parse::<EmailId>() {
        let place = bind(id.0.into_bytes().to_vec().into());
        let key = bind(q.to_owned().into());
        return format!("(l.id = {place} OR e.message_key = {key})");
    }
    let key = bind(q.to_owned().into());
    let address = bind(q.to_lowercase().into());
    // The start of a subject as a range, which the index serves; LIKE with a bound pattern it
    // cannot.
    let to = bind(format!("{q}\u{10ffff}").into());
    format!(
        "l.id IN (SELECT id FROM posthaste_email WHERE message_key = {key}
             UNION ALL
             SELECT id FROM posthaste_email
             WHERE subject COLLATE NOCASE >= {key} AND subject COLLATE NOCASE < {to}
             UNION ALL
             {})",
        sent_to(&address)
    )
}
