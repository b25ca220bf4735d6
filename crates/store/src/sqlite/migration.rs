//! Brings a database to the present schema, one numbered file after the other.
//!
//! The file may be an application's own. Everything of ours in it has a name that begins with
//! `posthaste_`; nothing else is touched, and `user_version` is the application's.

mod rename;

use posthaste_core::port::{StoreError, StoreResult};
use rusqlite::{Connection, TransactionBehavior};

use super::error::store_error;

/// Every migration in order. The database remembers those it has seen.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_email.sql"),
    include_str!("../../migrations/sqlite/0002_event.sql"),
    include_str!("../../migrations/sqlite/0003_message.sql"),
    include_str!("../../migrations/sqlite/0004_desk.sql"),
    include_str!("../../migrations/sqlite/0005_inline.sql"),
    include_str!("../../migrations/sqlite/0006_ways_out.sql"),
    include_str!("../../migrations/sqlite/0007_cheap_writes.sql"),
];

/// Where it remembers them.
const MEMORY: &str = "CREATE TABLE posthaste_migration (
         version    INTEGER NOT NULL PRIMARY KEY,
         applied_at INTEGER NOT NULL
     ) STRICT";

/// Applies what is missing. Several processes may do this at the same time. `now` is in microseconds.
pub(super) fn migrate(connection: &mut Connection, now: i64) -> StoreResult<()> {
    // Mostly there is nothing to do. Whoever opens the file beside a server then neither waits
    // for its writer nor writes anything itself.
    if version(connection).map_err(store_error)? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(store_error)?;
    let seen = match version(&transaction).map_err(store_error)? {
        Some(seen) => seen,
        None => begin(&transaction, now).map_err(store_error)?,
    };
    if seen > MIGRATIONS.len() {
        return Err(too_new(seen));
    }
    for (version, sql) in (1..).zip(MIGRATIONS).skip(seen) {
        transaction.execute_batch(sql).map_err(store_error)?;
        remember(&transaction, version, now).map_err(store_error)?;
    }
    transaction.commit().map_err(store_error)
}

/// Refuses a file that is not up to date, and changes nothing.
pub(super) fn check(connection: &Connection) -> StoreResult<()> {
    let present = MIGRATIONS.len();
    let refusal = match version(connection).map_err(store_error)? {
        Some(seen) if seen == present => return Ok(()),
        Some(seen) if seen > present => return Err(too_new(seen)),
        Some(seen) => format!(
            "its schema is at version {seen} and not {present}; `posthaste migrate`, or starting its \
             server or application in this version, brings it up to date"
        ),
        None if rename::seen(connection).map_err(store_error)? > 0 => {
            "its tables have the plain names of an older posthaste; `posthaste migrate`, or starting \
             its server, carries them over"
                .to_owned()
        }
        None => "it has no outbox; `posthaste migrate`, or starting the server or application that \
                 it belongs to, makes one"
            .to_owned(),
    };
    Err(StoreError::Failed(refusal))
}

fn too_new(seen: usize) -> StoreError {
    StoreError::Failed(format!(
        "the database has schema version {seen}, this program knows {}: start a newer posthaste",
        MIGRATIONS.len()
    ))
}

/// Makes the table that remembers, and gives how many migrations the file had seen without it.
fn begin(connection: &Connection, now: i64) -> rusqlite::Result<usize> {
    connection.execute_batch(MEMORY)?;
    let seen = rename::carry_over(connection)?;
    for version in 1..=seen {
        remember(connection, version, now)?;
    }
    Ok(seen)
}

fn remember(connection: &Connection, version: usize, now: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO posthaste_migration (version, applied_at) VALUES (?1, ?2)";
    connection.execute(sql, (version, now)).map(drop)
}

/// How many migrations the database has seen; `None` if there are no tables of ours.
fn version(connection: &Connection) -> rusqlite::Result<Option<usize>> {
    // A query, and not `table_exists`: that would not see what another process has just made.
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master
                   WHERE type = 'table' AND name = 'posthaste_migration')";
    if !connection.query_row(sql, [], |row| row.get(0))? {
        return Ok(None);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM posthaste_migration";
    connection.query_row(sql, [], |row| row.get(0)).map(Some)
}
