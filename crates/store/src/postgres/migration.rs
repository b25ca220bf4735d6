//! Brings a database to the present schema, one numbered file after the other.

use posthaste_core::port::{StoreError, StoreResult};
use tokio_postgres::Client;

use super::error::store_error;

/// Every migration in order. The database remembers how many it has seen.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_email.sql"),
    include_str!("../../migrations/postgres/0002_event.sql"),
];

/// Applies what is missing. Several instances may start at the same time: the others wait.
pub(super) async fn migrate(client: &mut Client) -> StoreResult<()> {
    let transaction = client.transaction().await.map_err(store_error)?;
    // Until the end of the transaction, and only for this schema. Waiting for a migration of
    // another instance may take longer than a statement usually may.
    transaction
        .batch_execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        .await
        .map_err(store_error)?;
    transaction
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('posthaste migration ' || current_schema(), 0))",
            &[],
        )
        .await
        .map_err(store_error)?;
    let sql = "CREATE TABLE IF NOT EXISTS posthaste_migration (
                   version    integer     PRIMARY KEY,
                   applied_at timestamptz NOT NULL DEFAULT now()
               )";
    transaction.batch_execute(sql).await.map_err(store_error)?;
    let seen: i32 = transaction
        .query_one(
            "SELECT coalesce(max(version), 0) FROM posthaste_migration",
            &[],
        )
        .await
        .map_err(store_error)?
        .get(0);
    let seen = usize::try_from(seen).unwrap_or(0);
    if seen > MIGRATIONS.len() {
        return Err(StoreError::Failed(format!(
            "the database has schema version {seen}, this program knows {}: start a newer posthaste",
            MIGRATIONS.len()
        )));
    }
    for (version, sql) in (1..).zip(MIGRATIONS).skip(seen) {
        transaction.batch_execute(sql).await.map_err(store_error)?;
        let version: i32 = version;
        transaction
            .execute(
                "INSERT INTO posthaste_migration (version) VALUES ($1)",
                &[&version],
            )
            .await
            .map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)
}
