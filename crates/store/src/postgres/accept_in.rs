//! New emails in a transaction of the application's own.
//!
//! That one has its own search path. It is put aside for as long as our statements run, so that
//! they are the same as everywhere else.

use posthaste_core::email::NewEmail;
use posthaste_core::port::{Accepted, StoreError, StoreResult};
use posthaste_core::status::Status;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Transaction};
use uuid::Uuid;

use super::PostgresStore;
use super::accept::{EXISTING, Earlier, INSERT, Insert, NewEntry, not_inserted};
use super::books::COUNT;
use super::error::store_error;
use crate::ledger::First;

const PATH: &str = "SELECT current_setting('search_path')";
const OUR_PATH: &str = "SELECT set_config('search_path', quote_ident($1), true)";
const THEIR_PATH: &str = "SELECT set_config('search_path', $1, true)";
const MINUTE: &str = "SELECT floor(extract(epoch FROM posthaste_now()) / 60)::int8";

impl PostgresStore {
    /// Keeps a new email in a transaction of someone else's on the same database: it is there
    /// exactly if that one commits.
    ///
    /// # Errors
    ///
    /// If the database is another one, or does not answer. The transaction should then be rolled
    /// back.
    pub async fn accept_in(
        &self,
        transaction: &Transaction<'_>,
        email: &NewEmail,
    ) -> StoreResult<Accepted> {
        let path: String = transaction
            .query_one(PATH, &[])
            .await
            .map_err(store_error)?
            .get(0);
        transaction
            .execute(OUR_PATH, &[&self.schema])
            .await
            .map_err(store_error)?;
        let accepted = accept(transaction, email).await?;
        transaction
            .execute(THEIR_PATH, &[&path])
            .await
            .map_err(store_error)?;
        Ok(accepted)
    }
}

async fn accept(transaction: &Transaction<'_>, email: &NewEmail) -> StoreResult<Accepted> {
    let (emails, states) = tokio::try_join!(
        transaction.prepare(INSERT[0]),
        transaction.prepare(INSERT[1]),
    )
    .map_err(not_ours)?;
    let entry: NewEntry = (email.clone(), First::Finder);
    let entries = [&entry];
    let insert = Insert::new(&entries, Some((emails, states)))?;
    let inserted = insert.run(transaction).await.map_err(store_error)?;
    if inserted.is_empty() {
        return existing(transaction, email).await;
    }
    count(transaction).await.map_err(store_error)?;
    Ok(Accepted::Created)
}

async fn existing(transaction: &Transaction<'_>, email: &NewEmail) -> StoreResult<Accepted> {
    let (keys, owners) = ([&*email.message_key], [&*email.owner]);
    let rows = transaction
        .query(EXISTING, &[&keys.as_slice(), &owners.as_slice()])
        .await
        .map_err(store_error)?;
    let earlier = rows.first().ok_or_else(not_inserted)?;
    Ok(Earlier::of(earlier)?.answer(&email.payload_hash))
}

/// Counts the email, where no one else does: the row stays locked until the application commits,
/// and nobody must wait for that.
async fn count(transaction: &Transaction<'_>) -> Result<(), Error> {
    let minute: i64 = transaction.query_one(MINUTE, &[]).await?.get(0);
    let slot = LAST_WRITERS_SLOT + 1 + own_number();
    let (from, to) = ([""], [Status::Pending.as_str()]);
    let values: super::pool::Values<'_> = &[
        &minute,
        &slot,
        &from.as_slice(),
        &to.as_slice(),
        &[1_i64].as_slice(),
    ];
    transaction.execute(COUNT, values).await.map(drop)
}

/// The last one that writers of ours use.
const LAST_WRITERS_SLOT: i32 = 1024;

fn own_number() -> i32 {
    let random = Uuid::now_v7().as_u128() % 1_000_000_000;
    i32::try_from(random).unwrap_or(0)
}

fn not_ours(error: Error) -> StoreError {
    if error.code() == Some(&SqlState::UNDEFINED_TABLE) {
        return StoreError::Failed(
            "the transaction is on a database without an outbox: begin it on the database that \
             the outbox was opened with"
                .into(),
        );
    }
    store_error(error)
}
