//! Reading emails.
//!
//! The state is read first and what hangs on it (recipients, attempts) after: if something
//! happens in between, they are newer than the state, never older.

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{DeadGroup, EmailFilter, StoreResult};
use posthaste_core::status::Status;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::email_row::{record_columns, record_of};
use super::error::corrupt;
use super::pool::Pool;
use super::search::{self, Common};
use super::state_row::{get, named, optional_name, unsigned};
use super::{PREFIX, PostgresStore, recipient_row};
use crate::dead_group;

/// A walk looks at so many emails at first, and at so many at once in the end.
const FIRST_STEP: usize = 250;
const LONGEST_STEP: usize = 8_000;

/// A value to be bound.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

impl PostgresStore {
    pub(super) async fn find_email(&self, id: EmailId) -> StoreResult<Option<EmailRecord>> {
        let columns = record_columns();
        let sql = format!(
            "SELECT {columns} FROM email e JOIN email_log l ON l.id = e.id WHERE e.id = $1"
        );
        let rows = self.desk.query(&sql, &[&id.0]).await?;
        let Some(mut record) = records_of(&self.desk, &rows).await?.pop() else {
            return Ok(None);
        };
        let attempts = self.attempts_of_all(&[id]).await?;
        record.attempts = attempts.into_iter().map(|(_, attempt)| attempt).collect();
        Ok(Some(record))
    }

    pub(super) async fn attempts_of_all(
        &self,
        ids: &[EmailId],
    ) -> StoreResult<Vec<(EmailId, AttemptRecord)>> {
        let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = self
            .desk
            .query(
                "SELECT number, started_at, finished_at, outcome, error_class, error, reply,
                     transport, worker, budget, next_attempt_at, stage, provider_id, is_free, email_id
                 FROM email_attempt WHERE email_id = ANY($1) ORDER BY email_id, number",
                &[&ids],
            )
            .await?;
        let attempt = |row: &Row| Ok((EmailId(get(row, 14)?), attempt_of(row)?));
        rows.iter().map(attempt).collect()
    }

    pub(super) async fn content_of(&self, id: EmailId) -> StoreResult<Option<Bytes>> {
        let sql = "SELECT content FROM email WHERE id = $1";
        let rows = self.desk.query(sql, &[&id.0]).await?;
        rows.first()
            .map(|row| Ok(Bytes::copy_from_slice(get(row, 0)?)))
            .transpose()
    }

    pub(super) async fn list_emails(&self, filter: &EmailFilter) -> StoreResult<Vec<EmailRecord>> {
        if cannot_match(filter) {
            return Ok(Vec::new());
        }
        let common = self.common_in(filter).await?;
        let walked = match common.is_any() {
            true => self.walk(filter, common).await?,
            false => None,
        };
        let rows = match walked {
            Some(rows) => rows,
            None => self.rows_of(filter, Common::default()).await?,
        };
        records_of(&self.desk, &rows).await
    }

    async fn rows_of(&self, filter: &EmailFilter, common: Common) -> StoreResult<Vec<Row>> {
        let (sql, values) = list_query(filter, common);
        self.desk.query(&sql, &bound(&values)).await
    }

    /// Looks at emails from the newest on, some at first and then more and more, until enough of
    /// them fit. `None`: the newest do not.
    async fn walk(&self, filter: &EmailFilter, common: Common) -> StoreResult<Option<Vec<Row>>> {
        let mut found = Vec::new();
        let mut in_state = EmailFilter {
            statuses: filter.statuses.clone(),
            ids: filter.ids.clone(),
            fingerprint: filter.fingerprint.clone(),
            after: filter.after,
            limit: FIRST_STEP,
            ..EmailFilter::default()
        };
        loop {
            let ids = self.ids_of(&in_state).await?;
            let Some(last) = ids.last().copied() else {
                return Ok(Some(found));
            };
            let is_all = ids.len() < in_state.limit;
            let among = EmailFilter {
                ids,
                limit: filter.limit - found.len(),
                ..filter.clone()
            };
            found.extend(self.rows_of(&among, common).await?);
            if is_all || found.len() >= filter.limit {
                return Ok(Some(found));
            }
            in_state.after = Some(last);
            in_state.limit *= 2;
            if in_state.limit > LONGEST_STEP {
                return Ok(None);
            }
        }
    }

    /// The emails that a filter finds by what their states tell, newest first.
    async fn ids_of(&self, filter: &EmailFilter) -> StoreResult<Vec<EmailId>> {
        let (sql, values) = ids_query(filter);
        let rows = self.desk.query(&sql, &bound(&values)).await?;
        rows.iter().map(|row| Ok(EmailId(get(row, 0)?))).collect()
    }

    pub(super) async fn groups(&self, owner: Option<&str>) -> StoreResult<Vec<DeadGroup>> {
        if owner.is_some_and(has_nul) {
            return Ok(Vec::new());
        }
        let sql = dead_group::query(PREFIX, owner.is_some().then_some("$1"));
        let bound: Vec<&(dyn ToSql + Sync)> = owner.iter().map(|owner| owner as _).collect();
        let rows = self.desk.query(&sql, &bound).await?;
        let rows: StoreResult<Vec<_>> = rows.iter().map(group_of).collect();
        rows.map(dead_group::merged)
    }
}

async fn records_of(pool: &Pool, rows: &[Row]) -> StoreResult<Vec<EmailRecord>> {
    let mut records = rows
        .iter()
        .map(record_of)
        .collect::<StoreResult<Vec<EmailRecord>>>()?;
    let recipients = records
        .iter_mut()
        .map(|record| (record.id, &mut record.recipients));
    recipient_row::tell_apart(pool, recipients).await?;
    Ok(records)
}

fn attempt_of(row: &Row) -> StoreResult<AttemptRecord> {
    Ok(AttemptRecord {
        number: unsigned(row, 0)?,
        started_at: get(row, 1)?,
        finished_at: get(row, 2)?,
        outcome: named(row, 3)?,
        error_class: get(row, 4)?,
        error: get(row, 5)?,
        reply: get(row, 6)?,
        transport: get(row, 7)?,
        worker: get(row, 8)?,
        budget: get::<Option<i32>>(row, 9)?
            .map(u32::try_from)
            .transpose()
            .map_err(corrupt)?,
        next_attempt_at: get(row, 10)?,
        stage: optional_name(row, 11)?,
        provider_id: get(row, 12)?,
        is_free: get(row, 13)?,
    })
}

fn group_of(row: &Row) -> StoreResult<DeadGroup> {
    Ok(DeadGroup {
        fingerprint: get(row, 0)?,
        count: u64::try_from(get::<i64>(row, 1)?).map_err(corrupt)?,
        first_seen: get(row, 2)?,
        last_seen: get(row, 3)?,
        sample: get(row, 4)?,
    })
}

/// PostgreSQL keeps no text with a NUL, and cannot even be asked for one.
pub(super) fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

/// Whether nothing can match, because it cannot even be asked for.
pub(super) fn cannot_match(filter: &EmailFilter) -> bool {
    [
        &filter.owner,
        &filter.template,
        &filter.to,
        &filter.q,
        &filter.fingerprint,
    ]
    .into_iter()
    .flatten()
    .any(|text| has_nul(text))
}

/// The query for a filter. The text is put together from fixed pieces; values are always bound.
fn list_query(filter: &EmailFilter, common: Common) -> (String, Vec<Value>) {
    let mut matching = Matching::to(filter, common);
    let limit = matching.limited(filter.limit);
    let (columns, states) = (record_columns(), matching.states(&limit));
    let of_email = &matching.of_email;
    let sql = format!(
        "SELECT {columns} FROM ({states}) AS l JOIN email e ON e.id = l.id WHERE {of_email}
         ORDER BY l.id DESC LIMIT {limit}"
    );
    (sql, matching.values)
}

/// The query for the ids that a filter finds by what states tell.
fn ids_query(filter: &EmailFilter) -> (String, Vec<Value>) {
    let mut matching = Matching::to(filter, Common::default());
    let limit = matching.limited(filter.limit);
    let states = matching.states(&limit);
    let sql = format!("SELECT l.id FROM ({states}) AS l ORDER BY l.id DESC LIMIT {limit}");
    (sql, matching.values)
}

/// A condition that everything fulfils.
const ANY: &str = "true";

/// Where emails that match are looked for. What only states tell is not looked up in both tables.
pub(super) fn source(filter: &EmailFilter) -> &'static str {
    if filter.owner.is_none() && filter.template.is_none() && filter.since.is_none() {
        "email_log l"
    } else {
        "email_log l JOIN email e ON e.id = l.id"
    }
}

/// Values as a query takes them.
pub(super) fn bound(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as _).collect()
}

/// What emails must fulfil to match, as a condition and the values bound in it.
pub(super) fn matching(filter: &EmailFilter) -> (String, Vec<Value>) {
    let Matching {
        statuses,
        of_state,
        of_email,
        values,
    } = Matching::to(filter, Common::default());
    let statuses = statuses.join(" OR ");
    (
        format!("({statuses}) AND {of_state} AND {of_email}"),
        values,
    )
}

/// What emails must fulfil to match.
struct Matching {
    /// Their state: one of these conditions on `email_log l`, of which no two hold together.
    statuses: Vec<String>,
    /// As a condition on `email_log l`.
    of_state: String,
    /// As a condition on `email e`.
    of_email: String,
    /// What is bound in both.
    values: Vec<Value>,
}

impl Matching {
    /// Binds how many are wanted, and gives the place.
    fn limited(&mut self, limit: usize) -> String {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        search::binding(&mut self.values)(Box::new(limit))
    }

    /// The states that match, by each index that holds some. No more of each than all together
    /// may be, where nothing else is asked of them.
    fn states(&self, limit: &str) -> String {
        let of_state = &self.of_state;
        let most = match self.of_email.as_str() {
            ANY => format!("ORDER BY l.id DESC LIMIT {limit}"),
            _ => String::new(),
        };
        let of_each =
            |status| format!("(SELECT * FROM email_log l WHERE {status} AND {of_state} {most})");
        let each: Vec<_> = self.statuses.iter().map(of_each).collect();
        each.join(" UNION ALL ")
    }

    fn to(filter: &EmailFilter, common: Common) -> Self {
        let mut values: Vec<Value> = Vec::new();
        let mut bind = search::binding(&mut values);
        let mut of_state = Vec::new();
        let mut of_email = Vec::new();
        if let Some(owner) = &filter.owner {
            of_email.push(format!("e.owner = {}", bind(Box::new(owner.clone()))));
        }
        if !filter.ids.is_empty() {
            let ids: Vec<uuid::Uuid> = filter.ids.iter().map(|id| id.0).collect();
            of_state.push(format!("l.id = ANY({})", bind(Box::new(ids))));
        }
        if let Some(template) = &filter.template {
            of_email.push(format!("e.template = {}", bind(Box::new(template.clone()))));
        }
        if let Some(fingerprint) = &filter.fingerprint {
            let place = bind(Box::new(fingerprint.clone()));
            of_state.push(dead_group::condition(fingerprint, &place));
        }
        if let Some(since) = filter.since {
            // Nothing is older than this, and the database knows fewer years than we do.
            let since = since.max(Timestamp::UNIX_EPOCH);
            of_email.push(format!("e.created_at >= {}", bind(Box::new(since))));
        }
        if let Some(after) = filter.after {
            of_state.push(format!("l.id < {}", bind(Box::new(after.0))));
        }
        if let Some(to) = &filter.to {
            match common.to {
                true => of_email.push(search::is_to(to, &mut bind)),
                false => of_state.push(search::among_those_to(to, &mut bind)),
            }
        }
        if let Some(q) = &filter.q {
            match common.q {
                true => of_email.push(search::fits(q, &mut bind)),
                false => of_state.push(search::among_those_that_fit(q, &mut bind)),
            }
        }
        drop(bind);
        let all = |conditions: Vec<String>| match conditions.is_empty() {
            true => ANY.to_owned(),
            false => conditions.join(" AND "),
        };
        Self {
            statuses: in_status(&filter.statuses),
            of_state: all(of_state),
            of_email: all(of_email),
            values,
        }
    }
}

/// States that one partial index holds together. Sent emails are in none; those that are being sent,
/// and failed ones that are parked, are in others.
const INDEXED_TOGETHER: [&[Status]; 2] = [
    &[
        Status::Pending,
        Status::Failed,
        Status::RetryQueued,
        Status::Unknown,
    ],
    &[Status::Dead, Status::Discarded, Status::Cancelled],
];

/// States stand in the text, so that PostgreSQL sees which partial index holds them; each once
/// and in a fixed order, so that the same filter is the same statement; and apart, if no single
/// index holds them all.
fn in_status(statuses: &[Status]) -> Vec<String> {
    let is_one_of = |some: &[Status]| {
        let wanted = some.iter().filter(|status| statuses.contains(status));
        let names: Vec<_> = wanted.map(|status| format!("'{status}'")).collect();
        (!names.is_empty()).then(|| format!("l.status IN ({})", names.join(", ")))
    };
    if statuses.contains(&Status::Sent) {
        return Vec::from_iter(is_one_of(Status::ALL));
    }
    let [waiting, desk] = INDEXED_TOGETHER.map(is_one_of);
    let waiting = waiting.map(|some| format!("({some} AND l.waiting_for IS NULL)"));
    let parked = statuses
        .contains(&Status::Failed)
        .then(|| "l.waiting_for IS NOT NULL".to_owned());
    let sending = statuses
        .contains(&Status::Sending)
        .then(|| "(l.status = 'sending' AND l.locked_until IS NOT NULL)".to_owned());
    let apart = [waiting, sending, parked, desk].into_iter().flatten();
    let apart: Vec<_> = apart.collect();
    match apart.is_empty() {
        true => vec![ANY.to_owned()],
        false => apart,
    }
}
