//! Emails that are in the outbox exactly if the application's own transaction commits.

use std::time::Duration;

use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{Accepted, Opened};
use posthaste_engine::intake::Reserved;

use crate::database::Backend;
use crate::{Error, Outbox, Sending};

/// A transaction of the application's own that an email can be put into.
///
/// It is implemented for the transactions of `rusqlite`, where the answer is there at once, and of
/// `tokio_postgres`, where it is awaited. This crate gives out both crates in the versions that it
/// uses.
pub trait Transaction: sealed::Sealed {
    /// What comes of it: a result, or a future of one.
    type Answer<'a, T: Send + 'a>
    where
        Self: 'a;

    /// Puts an email into it.
    #[doc(hidden)]
    fn put<'a, T: Send + 'a>(&'a mut self, outbox: &Outbox, deed: Deed<T>) -> Self::Answer<'a, T>;
}

mod sealed {
    pub trait Sealed {}

    #[cfg(feature = "sqlite")]
    impl Sealed for rusqlite::Transaction<'_> {}
    #[cfg(feature = "postgres")]
    impl Sealed for tokio_postgres::Transaction<'_> {}
}

/// What is to be done in a transaction.
#[doc(hidden)]
pub struct Deed<T> {
    email: Result<Box<NewEmail>, Error>,
    /// Who makes the first attempt, if it begins with the transaction.
    begins: Option<(String, Duration)>,
    then: Then<T>,
}

/// What is made of an email that was put into a transaction.
type Then<T> = Box<dyn FnOnce(&NewEmail, Opened) -> Result<T, Error> + Send>;

impl Deed<EmailId> {
    /// Keeps an email for the worker.
    pub(crate) fn enqueue(email: Result<Box<NewEmail>, Error>) -> Self {
        Self {
            email,
            begins: None,
            then: Box::new(|_, opened| match opened {
                Opened::Started(started) => Ok(started.lease.id),
                Opened::Replayed(id, _) => Ok(id),
                Opened::KeyConflict(id) => Err(Error::KeyConflict(id)),
            }),
        }
    }
}

impl Deed<Sending> {
    /// Keeps an email whose first attempt follows the commit, if there is room for one.
    pub(crate) fn send(
        outbox: &Outbox,
        email: Result<Box<NewEmail>, Error>,
        room: Option<Reserved>,
    ) -> Self {
        let outbox = outbox.clone();
        let begins = room
            .as_ref()
            .map(|room| (room.worker().to_owned(), room.lease()));
        Self {
            email,
            begins,
            then: Box::new(move |email, opened| Sending::new(outbox, email, opened, room)),
        }
    }
}

/// What became of an email that nobody begins.
fn kept(email: &NewEmail, accepted: Accepted) -> Opened {
    match accepted {
        Accepted::Created => Opened::Replayed(email.id, posthaste_core::status::Status::Pending),
        Accepted::Replayed(id, status) => Opened::Replayed(id, status),
        Accepted::KeyConflict(id) => Opened::KeyConflict(id),
    }
}

#[cfg(feature = "sqlite")]
impl Transaction for rusqlite::Transaction<'_> {
    type Answer<'a, T: Send + 'a>
        = Result<T, Error>
    where
        Self: 'a;

    fn put<'a, T: Send + 'a>(&'a mut self, outbox: &Outbox, deed: Deed<T>) -> Self::Answer<'a, T> {
        let email = deed.email?;
        let opened = match (outbox.backend(), deed.begins) {
            (Backend::Sqlite(store), Some((worker, lease))) => {
                store.accept_begun_in(self, &email, &worker, lease)?
            }
            (Backend::Sqlite(store), None) => kept(&email, store.accept_in(self, &email)?),
            #[cfg(feature = "postgres")]
            (Backend::Postgres(_), _) => return Err(another_kind()),
        };
        (deed.then)(&email, opened)
    }
}

#[cfg(feature = "postgres")]
impl Transaction for tokio_postgres::Transaction<'_> {
    type Answer<'a, T: Send + 'a>
        = std::pin::Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>
    where
        Self: 'a;

    fn put<'a, T: Send + 'a>(&'a mut self, outbox: &Outbox, deed: Deed<T>) -> Self::Answer<'a, T> {
        let store: Result<_, Error> = match outbox.backend() {
            Backend::Postgres(store) => Ok(std::sync::Arc::clone(store)),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => Err(another_kind()),
        };
        Box::pin(async move {
            let (email, store) = (deed.email?, store?);
            let opened = match deed.begins {
                Some((worker, lease)) => {
                    let begun = store.accept_begun_in(self, &email, &worker, lease);
                    begun.await?
                }
                None => kept(&email, store.accept_in(self, &email).await?),
            };
            (deed.then)(&email, opened)
        })
    }
}

#[cfg(all(feature = "sqlite", feature = "postgres"))]
fn another_kind() -> Error {
    Error::NotPossible(
        "the transaction is of another kind of database than the outbox: begin it on the database \
         that the outbox was opened with"
            .into(),
    )
}
