//! What can be in the way of a request, and how it is told.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

/// Why a request was not fulfilled. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Some fields are wrong.
    #[error("some fields are wrong")]
    Invalid(Vec<FieldError>),
    /// It is not the JSON that is wanted.
    #[error("{}", .0.body_text())]
    Unreadable(#[from] JsonRejection),
    /// Someone else was faster.
    #[error("the slot is taken; choose another one")]
    Taken,
    /// There is no such booking.
    #[error("there is no such booking")]
    NotFound,
    /// It is our fault.
    #[error("something went wrong here; please try again")]
    Internal(#[from] anyhow::Error),
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Which field.
    pub field: &'static str,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl FieldError {
    /// What is wrong with this field.
    pub fn new(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { field, message }
    }
}

impl Problem {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unreadable(rejection) => rejection.status(),
            Self::Taken => StatusCode::CONFLICT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What is wrong with which fields.
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        match self {
            Self::Invalid(errors) => errors,
            _ => &[],
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if let Self::Internal(error) = &self {
            tracing::error!("{error:#}");
        }
        let body = json!({"error": self.to_string(), "errors": self.errors()});
        (self.status(), Json(body)).into_response()
    }
}
