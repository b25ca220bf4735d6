//! Messages of other services as the stores keep them, read and changed beside the server.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::backend::{Backend, Store};

/// When to give up waiting for a row.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where a message is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) status: String,
    pub(crate) retry_count: i32,
    pub(crate) max_retries: i32,
    pub(crate) publish_failures: i32,
    pub(crate) repeats: i32,
    pub(crate) token: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) next_retry_at: Timestamp,
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    pub(crate) error_reason: String,
    pub(crate) original_queue: String,
    pub(crate) payload: Vec<u8>,
}

impl MessageRow {
    /// How long it had to wait when it was handed in first.
    pub(crate) fn delay(&self) -> Duration {
        let delay = self.next_retry_at.duration_since(self.created_at);
        Duration::try_from(delay).unwrap()
    }
}

const COLUMNS: &str = "status, retry_count, max_retries, publish_failures, repeats, token,
    created_at, next_retry_at, locked_until, finished_at, last_error, error_reason,
    original_queue, original_payload";

fn of_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<MessageRow> {
    let time = |microseconds| Timestamp::from_microsecond(microseconds).unwrap();
    Ok(MessageRow {
        status: row.get(0)?,
        retry_count: row.get(1)?,
        max_retries: row.get(2)?,
        publish_failures: row.get(3)?,
        repeats: row.get(4)?,
        token: row.get(5)?,
        created_at: time(row.get(6)?),
        next_retry_at: time(row.get(7)?),
        locked_until: row.get::<_, Option<i64>>(8)?.map(time),
        finished_at: row.get::<_, Option<i64>>(9)?.map(time),
        last_error: row.get(10)?,
        error_reason: row.get(11)?,
        original_queue: row.get(12)?,
        payload: row.get(13)?,
    })
}

impl Backend {
    /// What is kept about a message, if it is.
    pub(crate) async fn find_message(&self, id: &str) -> Option<MessageRow> {
        let id: Uuid = id.parse().unwrap();
        match &self.store {
            Store::Sqlite(folder) => {
                let sql =
                    format!("SELECT {COLUMNS} FROM posthaste_retry_queue WHERE message_id = ?1");
                let id = [id.as_bytes().as_slice()];
                let found = Self::file(folder).query_row(&sql, id, of_sqlite);
                rusqlite::OptionalExtension::optional(found).unwrap()
            }
            Store::Postgres(database) => {
                let sql = format!("SELECT {COLUMNS} FROM retry_queue WHERE message_id = $1");
                let client = database.beside().await;
                let row = client.query_opt(&sql, &[&id]).await.unwrap()?;
                Some(MessageRow {
                    status: row.get(0),
                    retry_count: row.get(1),
                    max_retries: row.get(2),
                    publish_failures: row.get(3),
                    repeats: row.get(4),
                    token: row.get(5),
                    created_at: row.get(6),
                    next_retry_at: row.get(7),
                    locked_until: row.get(8),
                    finished_at: row.get(9),
                    last_error: row.get(10),
                    error_reason: row.get(11),
                    original_queue: row.get(12),
                    payload: row.get(13),
                })
            }
        }
    }

    /// Waits until a message is kept as wanted, and gives it.
    pub(crate) async fn until_message(
        &self,
        id: &str,
        wanted: impl Fn(&MessageRow) -> bool,
    ) -> MessageRow {
        let mut last = None;
        let waiting = async {
            loop {
                last = self.find_message(id).await;
                match &last {
                    Some(row) if wanted(row) => return row.clone(),
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let waited = tokio::time::timeout(DEADLINE, waiting).await;
        waited.unwrap_or_else(|_| panic!("message {id} did not become as wanted: {last:?}"))
    }

    /// Waits until a message is in this state, and gives it.
    pub(crate) async fn until_message_is(&self, id: &str, status: &str) -> MessageRow {
        self.until_message(id, |row| row.status == status).await
    }

    /// How many messages are kept.
    pub(crate) async fn count_messages(&self) -> i64 {
        let sql = format!("SELECT count(*) FROM {}", self.table("retry_queue"));
        match &self.store {
            Store::Sqlite(folder) => {
                let count = |row: &rusqlite::Row<'_>| row.get(0);
                Self::file(folder).query_row(&sql, [], count).unwrap()
            }
            Store::Postgres(database) => {
                let client = database.beside().await;
                client.query_one(&sql, &[]).await.unwrap().get(0)
            }
        }
    }

    /// Makes all messages that wait due behind everyone's back, as if their delay had been short,
    /// and says how many there were.
    pub(crate) async fn make_messages_due(&self) -> u64 {
        self.set_of_pending("next_retry_at").await
    }

    /// Lets all claims of messages run out, as if time had passed, and says how many there were.
    pub(crate) async fn end_message_claims(&self) -> u64 {
        self.set_of_pending("locked_until").await
    }

    /// Makes all messages that are over so many days older.
    pub(crate) async fn age_messages(&self, days: i64) {
        match &self.store {
            Store::Sqlite(folder) => {
                let age = days * 86_400_000_000;
                let sql = "UPDATE posthaste_retry_queue SET finished_at = finished_at - ?1";
                Self::file(folder).execute(sql, [age]).unwrap();
            }
            Store::Postgres(database) => {
                let sql =
                    "UPDATE retry_queue SET finished_at = finished_at - $1 * '1 day'::interval";
                let client = database.beside().await;
                client.execute(sql, &[&(days as f64)]).await.unwrap();
            }
        }
    }

    /// Sets a time of all messages that wait and have one to now.
    async fn set_of_pending(&self, column: &str) -> u64 {
        let queue = self.table("retry_queue");
        let sql = |now: &str| {
            format!(
                "UPDATE {queue} SET {column} = {now}
                 WHERE status = 'pending' AND {column} IS NOT NULL"
            )
        };
        match &self.store {
            Store::Sqlite(folder) => {
                let now = Timestamp::now().as_microsecond().to_string();
                let changed = Self::file(folder).execute(&sql(&now), []).unwrap();
                u64::try_from(changed).unwrap()
            }
            Store::Postgres(database) => {
                let client = database.beside().await;
                client.execute(&sql("posthaste_now()"), &[]).await.unwrap()
            }
        }
    }
}
