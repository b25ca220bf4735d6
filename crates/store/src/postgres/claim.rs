//! Takes rows that wait, each once, however many instances ask: candidates are found by a small
//! partial index and locked, those that another instance holds are skipped, and the lifecycle
//! decides about each with the row in its present state.

use std::time::Instant;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::StoreResult;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::PostgresStore;
use super::books::{Books, Pipeline, READ_FACTS};
use super::error::Trouble;
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, get};
use crate::ledger::Ledger as _;

/// Which rows are to be taken.
pub(super) struct Candidates<'a> {
    /// Conditions, one after the other until there are enough.
    pub(super) queries: &'a [&'static str],
    /// The value of `$2`, if the conditions have one.
    pub(super) before: Option<Timestamp>,
    /// How many.
    pub(super) most: usize,
}

/// The whole query for a condition.
pub(super) fn query(condition: &str) -> String {
    let order = if condition.contains("l.locked_until <=") {
        "l.locked_until"
    } else {
        "l.next_attempt_at"
    };
    format!(
        "SELECT {STATE_COLUMNS}, l.id FROM email_log l
         WHERE {condition} ORDER BY {order} LIMIT $1 FOR UPDATE SKIP LOCKED"
    )
}

impl PostgresStore {
    /// Takes candidates and lets `decide` make something of them, in one transaction.
    pub(super) async fn claim<T>(
        &self,
        candidates: Candidates<'_>,
        decide: impl FnOnce(&mut Books, &[EmailId]) -> T,
    ) -> StoreResult<(T, Timestamp)> {
        self.keep_books(async |client, books| {
            let ids = lock(client, books, &candidates).await?;
            Ok(decide(books, &ids))
        })
        .await
    }

    /// Lets `work` read, lock and decide, and writes what it decided, in one transaction.
    pub(super) async fn keep_books<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper, &mut Books) -> Result<T, Trouble>,
    ) -> StoreResult<(T, Timestamp)> {
        let kept = self.pool.run(async |client: &ClientWrapper| {
            let asked = Instant::now();
            client.batch_execute("BEGIN").await?;
            let now = client.prepare_cached("SELECT posthaste_now()").await?;
            let now: Timestamp = client.query_one(&now, &[]).await?.get(0);
            self.clock.learn(now, asked);
            let mut books = Books::new(now);
            let done = work(client, &mut books).await?;
            let mut pipeline = Pipeline::new(client);
            books
                .write_back(&mut pipeline, self.slot, &self.bell)
                .await?;
            pipeline.commit();
            pipeline.finish().await?;
            if books.concerns_schedulers {
                self.bell.ring();
            }
            Ok::<_, Trouble>((done, books.now()))
        });
        Ok(kept.await?)
    }
}

async fn lock(
    client: &ClientWrapper,
    books: &mut Books,
    candidates: &Candidates<'_>,
) -> Result<Vec<EmailId>, Trouble> {
    let mut ids = Vec::new();
    for condition in candidates.queries {
        let left = i64::try_from(candidates.most - ids.len()).unwrap_or(i64::MAX);
        if left == 0 {
            break;
        }
        let statement = client.prepare_cached(&query(condition)).await?;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&left];
        values.extend(
            candidates
                .before
                .as_ref()
                .map(|at| at as &(dyn ToSql + Sync)),
        );
        for row in client.query(&statement, &values).await? {
            ids.push(books.read_state(&row, STATE_WIDTH)?);
        }
    }
    read_facts(client, books, &ids).await?;
    Ok(ids)
}

/// Reads the facts of emails whose states were read.
pub(super) async fn read_facts(
    client: &ClientWrapper,
    books: &mut Books,
    ids: &[EmailId],
) -> Result<(), Trouble> {
    if ids.is_empty() {
        return Ok(());
    }
    let statement = client.prepare_cached(READ_FACTS).await?;
    let taken: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    for row in client.query(&statement, &[&taken]).await? {
        books.read_facts(&row)?;
    }
    Ok(())
}

/// Whether a query found anything at all.
pub(super) fn any(rows: &[tokio_postgres::Row]) -> StoreResult<bool> {
    rows.first().map_or(Ok(false), |row| get(row, 0))
}
