//! What PostgreSQL itself says about where its time went.

use serde_json::{Value, json};
use tokio_postgres::Client;

/// So many statements are told.
const MOST_TOLD: i64 = 8;

/// The statements since a moment.
pub(super) struct Statements;

/// What claiming cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claims {
    /// Microseconds for each message.
    pub(super) time_us: f64,
    /// Pages for each message.
    pub(super) pages: f64,
    /// Messages in one claim.
    pub(super) batch: f64,
}

impl Statements {
    /// From now on; `None` if this PostgreSQL does not count statements.
    pub(super) async fn begin(database: &Client) -> Option<Self> {
        let sql = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
                   SELECT pg_stat_statements_reset()";
        database.batch_execute(sql).await.ok().map(|()| Self)
    }

    /// What claims of messages cost.
    pub(super) async fn claims(&self, database: &Client) -> anyhow::Result<Option<Claims>> {
        let sql =
            "SELECT sum(total_exec_time)::float8, sum(shared_blks_hit + shared_blks_read)::float8,
                       sum(rows)::float8, sum(calls) FILTER (WHERE rows > 0)::float8
                   FROM pg_stat_statements
                   WHERE query ILIKE '%UPDATE retry_queue%' AND query ILIKE '%SKIP LOCKED%'";
        let row = database.query_one(sql, &[]).await?;
        let [time_ms, pages, rows, calls] = [0, 1, 2, 3].map(|at| row.get::<_, Option<f64>>(at));
        let rows = rows.filter(|rows| *rows > 0.0);
        Ok(rows.map(|rows| Claims {
            time_us: time_ms.unwrap_or_default() * 1e3 / rows,
            pages: pages.unwrap_or_default() / rows,
            batch: rows / calls.unwrap_or(1.0),
        }))
    }

    /// The most expensive statements, for so many messages.
    pub(super) async fn most_expensive(
        &self,
        database: &Client,
        messages: f64,
    ) -> anyhow::Result<Vec<Value>> {
        let sql = "SELECT regexp_replace(left(query, 400), '\\s+', ' ', 'g'), calls::float8,
                       total_exec_time, rows::float8, (shared_blks_hit + shared_blks_read)::float8,
                       wal_bytes::float8
                   FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT $1";
        let rows = database.query(sql, &[&MOST_TOLD]).await?;
        let each = |total: f64| (total / messages.max(1.0) * 100.0).round() / 100.0;
        let told = rows.iter().map(|row| {
            let text: String = row.get(0);
            json!({
                "statement": text.chars().take(60).collect::<String>(),
                "calls": row.get::<_, f64>(1),
                "us_per_message": each(row.get::<_, f64>(2) * 1e3),
                "ms_per_call": (row.get::<_, f64>(2) / row.get::<_, f64>(1) * 100.0).round() / 100.0,
                "rows_per_call": (row.get::<_, f64>(3) / row.get::<_, f64>(1)).round(),
                "pages_per_message": each(row.get::<_, f64>(4)),
                "wal_bytes_per_message": each(row.get::<_, f64>(5)),
            })
        });
        Ok(told.collect())
    }
}
