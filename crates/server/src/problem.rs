//! Every error that leaves the server, in the shape of RFC 9457.
//!
//! A problem says what is wrong and what to do about it. It never carries the words of a
//! database, a file system or a panic: those go to the log.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use posthaste_core::port::StoreError;
use posthaste_engine::FieldError;
use posthaste_engine::intake::Refused;
use serde::Serialize;
use utoipa::ToSchema;

/// The content type of problems, unless the client asks for JSON only.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Seconds after which a client may try again what the server could not do just now.
const RETRY_SECONDS: u32 = 2;

/// The kinds of problems: their names in `type`, their status codes and titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Malformed,
    Unauthorized,
    NotBelieved,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Timeout,
    Conflict,
    Gone,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    Internal,
    Unavailable,
}

impl Kind {
    /// Every kind, for the documentation.
    pub(crate) const ALL: [Self; 14] = [
        Self::Malformed,
        Self::Unauthorized,
        Self::NotBelieved,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::Conflict,
        Self::Gone,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Status code, `type` and title.
    pub(crate) const fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "/docs#problem-malformed",
                "The body is not valid JSON",
            ),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "/docs#problem-unauthorized",
                "An API key is needed",
            ),
            Self::NotBelieved => (
                StatusCode::UNAUTHORIZED,
                "/docs#problem-not-believed",
                "The signature, the account or the time is wrong",
            ),
            Self::Forbidden => (
                StatusCode::FORBIDDEN,
                "/docs#problem-forbidden",
                "This is not allowed",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "/docs#problem-not-found",
                "There is no such thing",
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "/docs#problem-method-not-allowed",
                "The method is not allowed here",
            ),
            Self::Timeout => (
                StatusCode::REQUEST_TIMEOUT,
                "/docs#problem-timeout",
                "The request took too long to arrive",
            ),
            Self::Conflict => (
                StatusCode::CONFLICT,
                "/docs#problem-conflict",
                "The state does not allow it",
            ),
            Self::Gone => (
                StatusCode::GONE,
                "/docs#problem-gone",
                "The content was erased",
            ),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "/docs#problem-too-large",
                "The request is too large",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "/docs#problem-unsupported-media-type",
                "The media type is not supported",
            ),
            Self::Invalid => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "/docs#problem-invalid",
                "The request is not valid",
            ),
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "/docs#problem-internal",
                "The server failed",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "/docs#problem-unavailable",
                "The server cannot do this right now",
            ),
        }
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// The field as it is written, for example `to[1]`.
    #[schema(example = "to[1]")]
    pub(crate) field: String,
    /// What is wrong, and what would be right.
    #[schema(example = "has no `@`; write an address such as ann@example.org")]
    pub(crate) message: String,
}

/// An error (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Names the kind of problem; its description is found there.
    #[serde(rename = "type")]
    #[schema(example = "/docs#problem-invalid")]
    kind: &'static str,
    /// The kind of problem in words.
    title: &'static str,
    /// The HTTP status code.
    #[schema(example = 422)]
    status: u16,
    /// What happened, and what to do about it.
    detail: String,
    /// What is wrong with which field.
    errors: Vec<FieldProblem>,
    #[serde(skip)]
    retry_after_seconds: Option<u32>,
}

impl Problem {
    /// A problem of this kind.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (status, name, title) = kind.parts();
        Self {
            kind: name,
            title,
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_seconds: (kind == Kind::Unavailable).then_some(RETRY_SECONDS),
        }
    }

    /// Names a field with what is wrong about it.
    pub(crate) fn with_field(
        mut self,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.errors.push(FieldProblem {
            field: field.into(),
            message: message.into(),
        });
        self
    }

    /// One field that is wrong.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self::new(Kind::Invalid, format!("{field}: {message}")).with_field(field, message)
    }

    /// Fields that are wrong.
    pub(crate) fn invalid_fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [only] => format!("{}: {}", only.field, only.message),
            many => format!("{} fields need attention; see errors.", many.len()),
        };
        let mut problem = Self::new(Kind::Invalid, detail);
        problem.errors = errors
            .into_iter()
            .map(|FieldError { field, message }| FieldProblem { field, message })
            .collect();
        problem
    }

    /// There is no email of this id, or it is another owner's: the answer is the same.
    pub(crate) fn no_such_email() -> Self {
        Self::new(Kind::NotFound, "There is no email with this id.")
    }

    /// There is no message of this id.
    pub(crate) fn no_such_message() -> Self {
        Self::new(Kind::NotFound, "There is no message with this id.")
    }

    /// There is no operation of this id, or it is another owner's: the answer is the same.
    pub(crate) fn no_such_operation() -> Self {
        Self::new(Kind::NotFound, "There is no operation with this id.")
    }

    /// The status code.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The kind of problem in words.
    pub(crate) const fn title(&self) -> &'static str {
        self.title
    }

    /// What happened, and what to do about it.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::CannotWrite(_) => {
                tracing::warn!(%error, "a request could not be served");
                Self::new(
                    Kind::Unavailable,
                    "The store cannot be reached or written right now. Try again, with the same key if it is an email.",
                )
            }
            StoreError::Failed(_) => {
                tracing::error!(%error, "a request failed");
                Self::internal()
            }
        }
    }
}

impl Problem {
    /// Something that should not be possible. What it was is in the log.
    pub(crate) fn internal() -> Self {
        Self::new(
            Kind::Internal,
            "Something unexpected happened; the server's log has the details.",
        )
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(errors) => Self::invalid_fields(errors),
            Refused::TooLarge { size, limit } => Self::new(
                Kind::TooLarge,
                format!("The email has {size} octets; at most {limit} are allowed."),
            ),
            Refused::KeyConflict(id) => Self::invalid(
                "message_key",
                format!(
                    "was used before, for the email {id} with other content; use a new key for a new email"
                ),
            ),
            Refused::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        // A key would not help those whose signature is wrong.
        if self.kind == Kind::Unauthorized.parts().1 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // So that a page for people can be made of it further out.
        response.extensions_mut().insert(self);
        response
    }
}
