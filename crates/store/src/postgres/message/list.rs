//! Reading messages.

use posthaste_core::message::{MessageId, MessageRecord, MessageStatus};
use posthaste_core::port::{MessageFilter, StoreResult};
use tokio_postgres::types::ToSql;

use super::super::PostgresStore;
use super::super::books::Value;
use super::super::list::has_nul;
use super::row::{record_columns, record_of, state_names};

const FIND: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", q.original_payload FROM retry_queue q WHERE q.message_id = $1"
);

impl PostgresStore {
    pub(in crate::postgres) async fn message_of(
        &self,
        id: MessageId,
    ) -> StoreResult<Option<MessageRecord>> {
        let rows = self.desk.query(FIND, &[&id.0]).await?;
        rows.first().map(record_of).transpose()
    }

    pub(in crate::postgres) async fn newest_messages(
        &self,
        filter: &MessageFilter,
    ) -> StoreResult<Vec<MessageRecord>> {
        if filter.queue.as_deref().is_some_and(has_nul) {
            return Ok(Vec::new());
        }
        let (sql, values) = list_query(filter);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        let rows = self.desk.query(&sql, &values).await?;
        rows.iter().map(record_of).collect()
    }
}

/// The query for a filter. The text is put together from fixed pieces; values are always bound.
fn list_query(filter: &MessageFilter) -> (String, Vec<Value<'_>>) {
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<Value<'_>> = Vec::new();
    conditions.extend(in_status(&filter.statuses));
    if let Some(queue) = &filter.queue {
        values.push(Box::new(queue));
        conditions.push(format!("q.original_queue = ${}", values.len()));
    }
    if let Some(after) = filter.after {
        values.push(Box::new(after));
        conditions.push(format!("q.id < ${}", values.len()));
    }
    values.push(Box::new(i64::try_from(filter.limit).unwrap_or(i64::MAX)));
    let sql = format!(
        "SELECT {}, NULL::bytea FROM retry_queue q WHERE {} ORDER BY q.id DESC LIMIT ${}",
        record_columns!(),
        conditions.join(" AND "),
        values.len()
    );
    (sql, values)
}

/// States stand in the text, so that PostgreSQL sees which partial index holds them; each once
/// and in a fixed order, so that the same filter is the same statement.
fn in_status(statuses: &[MessageStatus]) -> Option<String> {
    let names: Vec<_> = MessageStatus::ALL
        .iter()
        .filter(|status| statuses.contains(status))
        .map(|status| format!("'{status}'"))
        .collect();
    (!names.is_empty()).then(|| format!("q.status IN ({})", names.join(", ")))
}
