//! Brings a database to the present schema, one numbered file after the other.

use posthaste_core::port::{StoreError, StoreResult};
use rusqlite::{Connection, TransactionBehavior};

use super::error::store_error;

/// Every migration in order. The database remembers how many it has seen in `user_version`.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_email.sql"),
    include_str!("../../migrations/sqlite/0002_event.sql"),
    include_str!("../../migrations/sqlite/0003_message.sql"),
    include_str!("../../migrations/sqlite/0004_desk.sql"),
];

/// Applies what is missing. Several processes may do this at the same time.
pub(super) fn migrate(connection: &mut Connection) -> StoreResult<()> {
    // Mostly there is nothing to do. Whoever opens the file beside a server then neither waits
    // for its writer nor writes anything itself.
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(store_error)?;
    let seen = version(&transaction)?;
    if seen > MIGRATIONS.len() {
        return Err(StoreError::Failed(format!(
            "the database has schema version {seen}, this program knows {}: start a newer posthaste",
            MIGRATIONS.len()
        )));
    }
    for sql in &MIGRATIONS[seen..] {
        transaction.execute_batch(sql).map_err(store_error)?;
    }
    transaction
        .pragma_update(None, "user_version", MIGRATIONS.len())
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)
}

fn version(connection: &Connection) -> StoreResult<usize> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(store_error)
}
