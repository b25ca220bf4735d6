//! Emails that are in the outbox exactly if the application's own transaction commits.

#[cfg(feature = "postgres")]
use std::pin::Pin;

use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::Accepted;

use crate::{Error, Outbox};

/// A transaction of the application's own that an email can be put into.
///
/// It is implemented for the transactions of `rusqlite`, where the answer is there at once, and of
/// `tokio_postgres`, where it is awaited. This crate gives out both crates in the versions that it
/// uses.
pub trait Transaction: sealed::Sealed {
    /// What [`Outbox::enqueue_in`] gives: a result, or a future of one.
    type Answer<'a>
    where
        Self: 'a;

    /// Puts an email into it.
    #[doc(hidden)]
    fn put<'a>(
        &'a mut self,
        outbox: &Outbox,
        email: Result<Box<NewEmail>, Error>,
    ) -> Self::Answer<'a>;
}

mod sealed {
    pub trait Sealed {}

    #[cfg(feature = "sqlite")]
    impl Sealed for rusqlite::Transaction<'_> {}
    #[cfg(feature = "postgres")]
    impl Sealed for tokio_postgres::Transaction<'_> {}
}

#[cfg(feature = "sqlite")]
impl Transaction for rusqlite::Transaction<'_> {
    type Answer<'a>
        = Result<EmailId, Error>
    where
        Self: 'a;

    fn put<'a>(
        &'a mut self,
        outbox: &Outbox,
        email: Result<Box<NewEmail>, Error>,
    ) -> Self::Answer<'a> {
        let email = email?;
        match outbox.backend() {
            crate::database::Backend::Sqlite(store) => {
                id_of(&email, store.accept_in(self, &email)?)
            }
            #[cfg(feature = "postgres")]
            crate::database::Backend::Postgres(_) => Err(another_kind()),
        }
    }
}

#[cfg(feature = "postgres")]
impl Transaction for tokio_postgres::Transaction<'_> {
    type Answer<'a>
        = Pin<Box<dyn Future<Output = Result<EmailId, Error>> + Send + 'a>>
    where
        Self: 'a;

    fn put<'a>(
        &'a mut self,
        outbox: &Outbox,
        email: Result<Box<NewEmail>, Error>,
    ) -> Self::Answer<'a> {
        let store: Result<_, Error> = match outbox.backend() {
            crate::database::Backend::Postgres(store) => Ok(std::sync::Arc::clone(store)),
            #[cfg(feature = "sqlite")]
            crate::database::Backend::Sqlite(_) => Err(another_kind()),
        };
        Box::pin(async move {
            let (email, store) = (email?, store?);
            id_of(&email, store.accept_in(self, &email).await?)
        })
    }
}

fn id_of(email: &NewEmail, accepted: Accepted) -> Result<EmailId, Error> {
    match accepted {
        Accepted::Created => Ok(email.id),
        Accepted::Replayed(id, _) => Ok(id),
        Accepted::KeyConflict(id) => Err(Error::KeyConflict(id)),
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
