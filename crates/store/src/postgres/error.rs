//! PostgreSQL's errors in the words of the port.

use posthaste_core::port::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What an error means for the work that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The connection is gone, or the server is stopping or starting.
    Away,
    /// Others stood in the way: doing it again helps.
    Conflict,
    /// It waited too long for a lock that someone holds.
    Locked,
    /// The disk is full or cannot be written.
    CannotWrite,
    /// One of the values is not possible.
    Refused,
}

pub(super) fn meaning(error: &Error) -> Meaning {
    let Some(state) = error.code() else {
        // No word from the server: the connection broke, or a value could not be sent at all.
        let cannot_be_sent = !error.is_closed()
            && std::error::Error::source(error)
                .is_some_and(|source| source.downcast_ref::<std::io::Error>().is_none());
        return if cannot_be_sent {
            Meaning::Refused
        } else {
            Meaning::Away
        };
    };
    match *state {
        SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE => Meaning::Conflict,
        // What was taken for granted was not so: see `books`.
        SqlState::DIVISION_BY_ZERO => Meaning::Conflict,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => Meaning::Locked,
        SqlState::READ_ONLY_SQL_TRANSACTION => Meaning::Away,
        _ => match &state.code()[..2] {
            // Connection exceptions, operator intervention; no entry (a password was changed), no
            // such database, a session that was ended for being idle.
            "08" | "57" | "28" | "3D" => Meaning::Away,
            "25" => Meaning::Away,
            "53" if *state == SqlState::DISK_FULL => Meaning::CannotWrite,
            "53" => Meaning::Away,
            "58" => Meaning::CannotWrite,
            _ => Meaning::Refused,
        },
    }
}

pub(super) fn store_error(error: Error) -> StoreError {
    let text = described(&error);
    match meaning(&error) {
        Meaning::Away | Meaning::Conflict | Meaning::Locked => StoreError::Unavailable(text),
        Meaning::CannotWrite => StoreError::CannotWrite(text),
        Meaning::Refused => StoreError::Failed(text),
    }
}

/// Why work on a connection failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The database said so, or the connection broke.
    Database(Error),
    /// An answer could not be understood, or none came.
    Store(StoreError),
    /// What stood in the way was gone when it was looked at.
    Vanished,
    /// Something was refused by what nobody has read.
    Doubtful,
}

impl Trouble {
    pub(super) fn meaning(&self) -> Meaning {
        match self {
            Self::Database(error) => meaning(error),
            Self::Vanished | Self::Doubtful => Meaning::Conflict,
            Self::Store(StoreError::Unavailable(_)) => Meaning::Away,
            Self::Store(StoreError::CannotWrite(_)) => Meaning::CannotWrite,
            Self::Store(StoreError::Failed(_)) => Meaning::Refused,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Database(error) => store_error(error),
            Trouble::Store(error) => error,
            Trouble::Doubtful => StoreError::Unavailable("emails changed all the time".into()),
            Trouble::Vanished => {
                StoreError::Unavailable("another email of this key came and went; try again".into())
            }
        }
    }
}

/// The server's own words, or the causes one after the other: the library's summary leaves both out.
fn described(error: &Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let hint = hint(answer.code());
        return format!("{} ({}){hint}", answer.message(), answer.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// What to do next, where it is not obvious.
fn hint(state: &SqlState) -> &'static str {
    match *state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            ": check user and password in DATABASE_URL, and the server's pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => ": create the database, or correct DATABASE_URL",
        SqlState::INVALID_SCHEMA_NAME => {
            ": create the schema that the search path in DATABASE_URL names"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            ": grant the user this right, or run `posthaste migrate` as the owner first"
        }
        _ => "",
    }
}

/// A value that could not be read back as what it was written.
pub(super) fn corrupt(what: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("unreadable value: {what}"))
}
