//! What can go wrong. Mail that cannot be sent is not among it.

use posthaste_core::email::EmailId;
use posthaste_core::port::StoreError;
use posthaste_engine::intake::Refused;

/// Why something was not done. Nothing was changed then, except that the answer of a database that
/// went away may have been lost: hand the email in again with the same
/// [`message_key`](crate::Email::message_key) to be sure.
///
/// A mail server that is down, slow or unwilling is no error: the email is safe, and
/// [`Delivery`](crate::Delivery) says where it stands.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something about the email is wrong.
    #[error("the email is not valid: {}", listed(.0))]
    Invalid(Vec<FieldError>),
    /// The email is larger than allowed.
    #[error("the email has {size} octets, at most {limit} are allowed")]
    #[non_exhaustive]
    TooLarge {
        /// Its size.
        size: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Its key was used before, for an email with other content.
    #[error("the message key was used before, for an email with other content ({0})")]
    KeyConflict(EmailId),
    /// An option of the outbox is wrong.
    #[error("the option `{option}` of the outbox: {message}")]
    #[non_exhaustive]
    Option {
        /// Which option.
        option: &'static str,
        /// What is wrong, and what to do about it.
        message: String,
    },
    /// There is no such email (any more).
    #[error("there is no email {0}")]
    NotFound(EmailId),
    /// The state of the email does not allow it.
    #[error("{0}")]
    NotPossible(String),
    /// The database could not do its work.
    #[error("{message}")]
    #[non_exhaustive]
    Database {
        /// What is wrong.
        message: String,
        /// Whether trying again later may help: the database is away, busy or locked.
        is_transient: bool,
    },
}

impl Error {
    /// Whether trying again later may help.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Database { is_transient, .. } if *is_transient)
    }

    pub(crate) fn invalid(field: &str, message: &str) -> Self {
        Self::Invalid(vec![FieldError {
            field: field.to_owned(),
            message: message.to_owned(),
        }])
    }
}

/// What is wrong with one field of an email.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldError {
    /// Which field, for example `to[0]` or `subject`.
    pub field: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// All of them in one line.
pub(crate) fn listed(errors: &[FieldError]) -> String {
    let said = errors
        .iter()
        .map(|error| format!("{} {}", error.field, error.message));
    said.collect::<Vec<_>>().join("; ")
}

#[cfg(feature = "calendar")]
impl From<crate::calendar::InvalidEvent> for Error {
    fn from(invalid: crate::calendar::InvalidEvent) -> Self {
        Self::Invalid(invalid.into_errors())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Database {
            message: error.to_string(),
            is_transient: matches!(error, StoreError::Unavailable(_)),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(errors) => {
                let given = errors.into_iter().map(|error| FieldError {
                    field: error.field,
                    message: error.message,
                });
                Self::Invalid(given.collect())
            }
            Refused::TooLarge { size, limit } => Self::TooLarge { size, limit },
            Refused::KeyConflict(id) => Self::KeyConflict(id),
            Refused::Store(error) => error.into(),
        }
    }
}
