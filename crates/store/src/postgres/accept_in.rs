//! New emails in a transaction of the application's own.
//!
//! That one has its own search path. It is put aside for as long as our statements run, so that
//! they are the same as everywhere else. All of it is in a savepoint: if it fails, or whoever waits
//! for it goes away, the transaction is as it was before.

use std::time::Duration;

use posthaste_core::email::NewEmail;
use posthaste_core::port::{Accepted, Opened, Started, StoreError, StoreResult};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Transaction};
use uuid::Uuid;

use super::PostgresStore;
use super::accept::{EXISTING, Earlier, not_inserted};
use super::error::{Trouble, store_error};
use super::insert::{INSERT, Insert, NewEntry};
use super::pool::Values;
use super::slot::LAST_SLOT;
use super::state_row::get;
use super::suppressed::{Asked, READ, SuppressionList};
use crate::ledger::{First, Suppressed, begun};

const PATH: &str = "SELECT current_setting('search_path')";
/// Tables that the application made for its session only come last: they are not ours.
const OUR_PATH: &str = "SELECT set_config('search_path', quote_ident($1) || ', pg_temp', true)";
const THEIR_PATH: &str = "SELECT set_config('search_path', $1, true)";

/// Who makes the first attempt, and for how long it is held: nobody in particular if `None`.
type Begins<'a> = Option<(&'a str, Duration)>;

impl PostgresStore {
    /// Keeps a new email in a transaction of someone else's on the same database: it is there
    /// exactly if that one commits.
    ///
    /// # Errors
    ///
    /// If the database is another one, or does not answer.
    pub async fn accept_in(
        &self,
        transaction: &mut Transaction<'_>,
        email: &NewEmail,
    ) -> StoreResult<Accepted> {
        let (accepted, _) = self.put(transaction, email, None).await?;
        Ok(accepted)
    }

    /// The same, with its first attempt begun: whoever put it there makes it after the commit.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn accept_begun_in(
        &self,
        transaction: &mut Transaction<'_>,
        email: &NewEmail,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Opened> {
        let put = self.put(transaction, email, Some((worker, lease)));
        Ok(match put.await? {
            (_, Some(started)) => Opened::Started(Box::new(started)),
            (Accepted::Replayed(id, status), _) => Opened::Replayed(id, status),
            (Accepted::KeyConflict(id), _) => Opened::KeyConflict(id),
            (Accepted::Created, None) => return Err(not_inserted()),
        })
    }

    async fn put(
        &self,
        transaction: &mut Transaction<'_>,
        email: &NewEmail,
        begins: Begins<'_>,
    ) -> StoreResult<(Accepted, Option<Started>)> {
        let savepoint = transaction.transaction().await.map_err(store_error)?;
        let path = savepoint.query_one(PATH, &[]).await.map_err(store_error)?;
        let path: &str = path.get(0);
        set_path(&savepoint, OUR_PATH, &self.schema).await?;
        let accepted = match accept(&savepoint, email, begins).await {
            // An email of the same key came and went. A second look is enough: a third one would
            // have had to come and go as well.
            Err(Trouble::Vanished) => accept(&savepoint, email, begins).await?,
            accepted => accepted?,
        };
        set_path(&savepoint, THEIR_PATH, path).await?;
        savepoint.commit().await.map_err(store_error)?;
        Ok(accepted)
    }
}

async fn set_path(transaction: &Transaction<'_>, sql: &str, path: &str) -> StoreResult<()> {
    let set = transaction.execute(sql, &[&path]).await;
    set.map(drop).map_err(store_error)
}

async fn accept(
    transaction: &Transaction<'_>,
    email: &NewEmail,
    begins: Begins<'_>,
) -> Result<(Accepted, Option<Started>), Trouble> {
    let statement = transaction.prepare(INSERT).await.map_err(not_ours)?;
    let first = begins.map_or(First::Finder, |_| First::Caller);
    let entry = NewEntry {
        email: email.clone(),
        first,
        begins: begins.map(|(worker, lease)| (worker.into(), lease)),
    };
    // Counted where no one else counts: the row stays locked until the application commits, and
    // nobody must wait for that.
    let slot = LAST_SLOT + 1 + own_number();
    let insert = Insert::new(vec![&entry], statement, slot)?;
    let inserted = insert.run(transaction).await?;
    let Some(row) = inserted.first() else {
        return Ok((existing(transaction, email).await?, None));
    };
    let started = match begins {
        Some((worker, lease)) => {
            let suppressed = suppressed(transaction, email).await?;
            begun(email, first, suppressed, worker, lease, get(row, 1)?)
        }
        None => None,
    };
    Ok((Accepted::Created, started))
}

/// Which of its recipients get nothing any more.
async fn suppressed(
    transaction: &Transaction<'_>,
    email: &NewEmail,
) -> Result<Suppressed, Trouble> {
    let to = || email.envelope.recipients.iter();
    let mut asked = Asked::default();
    asked.add(&email.owner, to());
    let values: Values<'_> = &[&asked.owners, &asked.addresses];
    let rows = transaction.query(READ, values).await?;
    Ok(SuppressionList::of(&rows)?.among(&email.owner, to()))
}

async fn existing(transaction: &Transaction<'_>, email: &NewEmail) -> Result<Accepted, Trouble> {
    let (keys, owners) = ([&*email.message_key], [&*email.owner]);
    let values: Values<'_> = &[&keys.as_slice(), &owners.as_slice()];
    let rows = transaction.query(EXISTING, values).await?;
    let earlier = rows.first().ok_or(Trouble::Vanished)?;
    Ok(Earlier::of(earlier)?.answer(&email.payload_hash))
}

fn own_number() -> i32 {
    let random = Uuid::now_v7().as_u128() % 1_000_000_000;
    i32::try_from(random).unwrap_or(0)
}

fn not_ours(error: Error) -> Trouble {
    let is_missing = [SqlState::UNDEFINED_FUNCTION, SqlState::UNDEFINED_TABLE];
    if error.code().is_some_and(|code| is_missing.contains(code)) {
        let message = "the transaction is on a database without an outbox: begin it on the \
                       database that the outbox was opened with";
        return StoreError::Failed(message.into()).into();
    }
    error.into()
}
