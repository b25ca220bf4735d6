//! Reading messages.

use posthaste_core::message::{MessageId, MessageRecord, MessageStatus};
use posthaste_core::port::{MessageFilter, StoreResult};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params_from_iter};

use super::super::SqliteStore;
use super::row::{record_columns, record_of};

impl SqliteStore {
    pub(in crate::sqlite) async fn message_of(
        &self,
        id: MessageId,
    ) -> StoreResult<Option<MessageRecord>> {
        self.desk
            .run(move |connection| {
                let columns = record_columns("q.original_payload");
                connection
                    .prepare_cached(&format!(
                        "SELECT {columns} FROM posthaste_retry_queue q WHERE q.message_id = ?1"
                    ))?
                    .query_row([id.0], record_of)
                    .optional()
            })
            .await
    }

    pub(in crate::sqlite) async fn newest_messages(
        &self,
        filter: &MessageFilter,
    ) -> StoreResult<Vec<MessageRecord>> {
        let (sql, values) = list_query(filter);
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&sql)?
                    .query_map(params_from_iter(values), record_of)?
                    .collect()
            })
            .await
    }
}

/// The query for a filter. The text is put together from fixed pieces; values are always bound.
fn list_query(filter: &MessageFilter) -> (String, Vec<Value>) {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    conditions.extend(in_status(&filter.statuses));
    if let Some(queue) = &filter.queue {
        values.push(queue.clone().into());
        conditions.push(format!("q.original_queue = ?{}", values.len()));
    }
    if let Some(after) = filter.after {
        values.push(after.into());
        conditions.push(format!("q.id < ?{}", values.len()));
    }
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    let sql = format!(
        "SELECT {} FROM posthaste_retry_queue q WHERE {} ORDER BY q.id DESC LIMIT ?{}",
        record_columns("NULL"),
        conditions.join(" AND "),
        values.len()
    );
    (sql, values)
}

/// One state is compared as it stands, so that SQLite sees which partial index holds it.
fn in_status(statuses: &[MessageStatus]) -> Option<String> {
    match statuses {
        [] => None,
        [status] => Some(format!("q.status = '{status}'")),
        several => {
            let names: Vec<_> = several.iter().map(|s| format!("'{s}'")).collect();
            Some(format!("q.status IN ({})", names.join(", ")))
        }
    }
}
