//! The id of an email in a path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use posthaste_core::email::EmailId;

use crate::problem::Problem;

/// The id of an email in a path. What is no id is the id of nothing.
pub(crate) struct Id(pub(crate) EmailId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.ok()
            .and_then(|Path(id)| id.parse().ok())
            .map(Self)
            .ok_or_else(Problem::no_such_email)
    }
}
