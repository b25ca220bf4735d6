//! The application's own table, in the file that the outbox has its tables in, too.
//!
//! Each sees to its own: the application counts its migrations in `user_version`, the outbox
//! elsewhere.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste::rusqlite::{
    self, Connection, OptionalExtension as _, Row, Transaction, named_params,
};

use crate::booking::Booking;

/// What was ever done to the schema, in order.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_booking.sql")];

/// What follows from a change, in the same transaction.
pub trait Follows<T>:
    FnOnce(&mut Transaction<'_>, &Booking) -> anyhow::Result<T> + Send + 'static
{
}

impl<T, F> Follows<T> for F where
    F: FnOnce(&mut Transaction<'_>, &Booking) -> anyhow::Result<T> + Send + 'static
{
}

/// Where bookings are kept. It is cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Store {
    connection: Arc<Mutex<Connection>>,
}

impl Store {
    /// Opens the file, and brings the table up to date.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is not ours.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut connection = Connection::open(path)?;
        migrate(&mut connection)?;
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    /// Keeps a new booking, unless its slot is taken, and in the same transaction what `follows`
    /// from it. `None`: it is taken.
    ///
    /// # Errors
    ///
    /// If the database does not do its work, or what follows fails. Nothing is kept then.
    pub async fn insert<T: Send + 'static>(
        &self,
        booking: Booking,
        follows: impl Follows<T>,
    ) -> anyhow::Result<Option<T>> {
        let sql = "INSERT INTO booking (id, name, email, slot, uid, sequence)
                   VALUES (:id, :name, :email, :slot, :uid, :sequence)
                   ON CONFLICT DO NOTHING";
        self.run(move |connection| {
            let mut transaction = connection.transaction()?;
            let Booking {
                id,
                name,
                email,
                slot,
                uid,
                sequence,
                ..
            } = &booking;
            let values = named_params! {
                ":id": id, ":name": name, ":email": email,
                ":slot": slot, ":uid": uid, ":sequence": sequence,
            };
            if transaction.execute(sql, values)? == 0 {
                return Ok(None);
            }
            let followed = follows(&mut transaction, &booking)?;
            transaction.commit()?;
            Ok(Some(followed))
        })
        .await
    }

    /// Marks a booking as cancelled and gives it, with what `follows` from it in the same
    /// transaction. `None`: there is no such booking, or it was cancelled before.
    ///
    /// # Errors
    ///
    /// If the database does not do its work, or what follows fails. Nothing is changed then.
    pub async fn cancel<T: Send + 'static>(
        &self,
        id: String,
        follows: impl Follows<T>,
    ) -> anyhow::Result<Option<(Booking, T)>> {
        let sql = "UPDATE booking SET cancelled = 1 WHERE id = :id AND cancelled = 0 RETURNING *";
        self.run(move |connection| {
            let mut transaction = connection.transaction()?;
            let cancelled = transaction.query_row(sql, named_params! {":id": id}, read);
            let Some(booking) = cancelled.optional()? else {
                return Ok(None);
            };
            let followed = follows(&mut transaction, &booking)?;
            transaction.commit()?;
            Ok(Some((booking, followed)))
        })
        .await
    }

    /// A booking.
    ///
    /// # Errors
    ///
    /// If the database does not do its work.
    pub async fn find(&self, id: String) -> anyhow::Result<Option<Booking>> {
        let sql = "SELECT * FROM booking WHERE id = :id";
        self.run(move |connection| {
            let found = connection.query_row(sql, named_params! {":id": id}, read);
            Ok(found.optional()?)
        })
        .await
    }

    /// All bookings, the next ones first.
    ///
    /// # Errors
    ///
    /// If the database does not do its work.
    pub async fn all(&self) -> anyhow::Result<Vec<Booking>> {
        let sql = "SELECT * FROM booking ORDER BY slot, id";
        self.run(|connection| {
            let mut statement = connection.prepare(sql)?;
            let bookings = statement.query_map([], read)?;
            Ok(bookings.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Works with the connection on a thread that may wait for the disk.
    async fn run<T, F>(&self, work: F) -> anyhow::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> anyhow::Result<T> + Send + 'static,
    {
        let connection = Arc::clone(&self.connection);
        let working = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        });
        working.await?
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Booking> {
    Ok(Booking {
        id: row.get("id")?,
        name: row.get("name")?,
        email: row.get("email")?,
        slot: row.get("slot")?,
        uid: row.get("uid")?,
        sequence: row.get("sequence")?,
        cancelled: row.get("cancelled")?,
    })
}

fn migrate(connection: &mut Connection) -> anyhow::Result<()> {
    let transaction = connection.transaction()?;
    let applied: usize = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(missing) = MIGRATIONS.get(applied..) else {
        anyhow::bail!("the database is of a newer version of this application, or of another one");
    };
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    Ok(transaction.commit()?)
}
