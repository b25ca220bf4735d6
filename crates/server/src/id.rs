//! An id in a path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use posthaste_core::email::EmailId;
use posthaste_core::message::MessageId;
use posthaste_core::operation::OperationId;

use crate::problem::Problem;

/// What has an id that stands in paths.
pub(crate) trait Identity: FromStr {
    /// There is nothing with this id.
    fn not_found() -> Problem;
}

impl Identity for EmailId {
    fn not_found() -> Problem {
        Problem::no_such_email()
    }
}

impl Identity for MessageId {
    fn not_found() -> Problem {
        Problem::no_such_message()
    }
}

impl Identity for OperationId {
    fn not_found() -> Problem {
        Problem::no_such_operation()
    }
}

/// The id in a path, of an email unless it says otherwise. What is no id is the id of nothing.
pub(crate) struct Id<T = EmailId>(pub(crate) T);

impl<S: Send + Sync, T: Identity> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.ok()
            .and_then(|Path(id)| id.parse().ok())
            .map(Self)
            .ok_or_else(T::not_found)
    }
}

/// The name of something in a path. What cannot be read is the name of nothing.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map(|Path(name)| name).unwrap_or_default()))
    }
}
