//! Brings a database to the present schema, one numbered file after the other.

use posthaste_core::port::{StoreError, StoreResult};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient};

use super::error::store_error;

/// Every migration in order. The database remembers how many it has seen.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_email.sql"),
    include_str!("../../migrations/postgres/0002_event.sql"),
    include_str!("../../migrations/postgres/0003_message.sql"),
    include_str!("../../migrations/postgres/0004_desk.sql"),
    include_str!("../../migrations/postgres/0005_inline.sql"),
    include_str!("../../migrations/postgres/0006_ways_out.sql"),
    include_str!("../../migrations/postgres/0007_cheap_writes.sql"),
];

/// Applies what is missing. Several instances may start at the same time: the others wait.
pub(super) async fn migrate(client: &mut Client) -> StoreResult<()> {
    // Mostly there is nothing to do. Then it needs no rights to change the schema either.
    if version(client).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(store_error)?;
    // Until the end of the transaction, and only for this schema. Waiting for a migration of
    // another instance may take longer than a statement usually may.
    let prepare = "SET LOCAL lock_timeout = 0;
         SET LOCAL statement_timeout = 0;
         SELECT pg_advisory_xact_lock(hashtextextended('posthaste migration ' || current_schema(), 0));
         CREATE TABLE IF NOT EXISTS posthaste_migration (
             version    integer     PRIMARY KEY,
             applied_at timestamptz NOT NULL DEFAULT now()
         )";
    transaction
        .batch_execute(prepare)
        .await
        .map_err(store_error)?;
    let seen = version(&transaction).await?.unwrap_or(0);
    if seen > MIGRATIONS.len() {
        return Err(too_new(seen));
    }
    for (version, sql) in (1_i32..).zip(MIGRATIONS).skip(seen) {
        transaction.batch_execute(sql).await.map_err(store_error)?;
        let insert = "INSERT INTO posthaste_migration (version) VALUES ($1)";
        transaction
            .execute(insert, &[&version])
            .await
            .map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)
}

/// Makes the schema, if there is none. Its name is a plain one.
pub(super) async fn make_schema(client: &Client, schema: Option<&str>) -> StoreResult<()> {
    let Some(schema) = schema else {
        return Ok(());
    };
    // Asked first: it may be there, and we may have no right to make one.
    let sql = "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL";
    let row = client
        .query_one(sql, &[&schema])
        .await
        .map_err(store_error)?;
    if row.get::<_, bool>(0) {
        return Ok(());
    }
    let sql = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
    match client.batch_execute(&sql).await {
        // Another process made it at the same time.
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(()),
        made => made.map_err(store_error),
    }
}

fn too_new(seen: usize) -> StoreError {
    StoreError::Failed(format!(
        "the database has schema version {seen}, this program knows {}: start a newer posthaste",
        MIGRATIONS.len()
    ))
}

/// Refuses a database that is not up to date, and changes nothing.
pub(super) async fn check(client: &Client) -> StoreResult<()> {
    match version(client).await? {
        Some(seen) if seen == MIGRATIONS.len() => Ok(()),
        Some(seen) if seen > MIGRATIONS.len() => Err(too_new(seen)),
        seen => Err(StoreError::Failed(format!(
            "its schema is {}; `posthaste migrate`, or starting the server, brings it up to date",
            match seen {
                None => "empty".to_owned(),
                Some(seen) => format!("at version {seen} and not {}", MIGRATIONS.len()),
            }
        ))),
    }
}

/// How many migrations the database has seen; `None` if there are no tables of ours.
async fn version(client: &impl GenericClient) -> StoreResult<Option<usize>> {
    let sql = "SELECT to_regclass('posthaste_migration') IS NOT NULL";
    let row = client.query_one(sql, &[]).await.map_err(store_error)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM posthaste_migration";
    let row = client.query_one(sql, &[]).await.map_err(store_error)?;
    Ok(Some(usize::try_from(row.get::<_, i32>(0)).unwrap_or(0)))
}
