//! What providers say later of emails that they took.
//!
//! Providers have no API key of ours: the signature of what they post is their credential, and it
//! is checked before anything is read. So this route is open to everyone, through proxies too. What
//! they post is never logged: it holds addresses.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use posthaste_core::port::{CallbackError, StoreError};
use posthaste_engine::feedback::FeedbackError;

use crate::app::App;
use crate::body::FeedbackBody;
use crate::id::Named;
use crate::json::{self, Json, RawBytes};
use crate::openapi::FeedbackProblems;
use crate::problem::{Kind, Problem};

/// Hear what a provider says
///
/// Where webhooks of the provider behind a transport are sent: delivered, bounced, complained. It is
/// believed by its signature and needs no API key. All of it may come again, in any order.
#[utoipa::path(
    post,
    path = "/v1/provider-events/{transport}",
    tag = "transports",
    operation_id = "takeProviderEvents",
    params(("transport" = String, Path, description = "Whose provider")),
    request_body(content = Vec<u8>, content_type = "*/*", description = "As the provider posts it, up to 1 MiB"),
    responses(
        (status = 200, description = "It is recorded", body = FeedbackBody),
        FeedbackProblems
    ),
    security(())
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Listening(transport): Listening,
    body: RawBytes,
) -> Result<Json<FeedbackBody>, Problem> {
    let headers = pairs(&body.headers);
    let taken = app.feedback.take(&transport, headers, body.bytes.clone());
    match taken.await {
        Ok(summary) => Ok(json::ok(FeedbackBody {
            recorded: summary.recorded,
            unchanged: summary.unchanged,
            not_ours: summary.not_ours,
        })),
        Err(error) => Err(problem(&transport, error)),
    }
}

/// A transport that listens to its provider. Nothing is read of what is meant for another.
pub(crate) struct Listening(String);

impl FromRequestParts<Arc<App>> for Listening {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Ok(Named(transport)) = Named::from_request_parts(parts, app).await;
        if app.feedback.listens(&transport) {
            Ok(Self(transport))
        } else {
            Err(problem(&transport, FeedbackError::NotFound))
        }
    }
}

/// The headers that are text. Their names are in lower case already.
fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn problem(transport: &str, error: FeedbackError) -> Problem {
    match error {
        FeedbackError::NotFound => Problem::new(
            Kind::NotFound,
            "There is no transport of this name that listens to its provider.",
        ),
        FeedbackError::Callback(CallbackError::NotBelieved(why)) => {
            tracing::warn!(transport, %why, "a provider's post is not believed");
            Problem::new(Kind::NotBelieved, format!("It is not believed: {why}."))
        }
        FeedbackError::Callback(CallbackError::NotUnderstood(why)) => {
            tracing::warn!(transport, %why, "a provider's post is not understood");
            Problem::new(Kind::Invalid, format!("It is not understood: {why}."))
        }
        FeedbackError::Callback(CallbackError::TryLater(why)) => {
            tracing::warn!(transport, %why, "a provider's post cannot be checked now");
            Problem::new(Kind::Unavailable, format!("Say it again later: {why}."))
        }
        FeedbackError::TryLater => Problem::new(
            Kind::Unavailable,
            "An email of it is being sent right now. Say it again later.",
        ),
        FeedbackError::Store(error) => of_store(&error),
    }
}

/// Whatever the store's trouble is, the provider is to say it again.
fn of_store(error: &StoreError) -> Problem {
    tracing::error!(%error, "what a provider said could not be recorded");
    Problem::new(
        Kind::Unavailable,
        "It could not be recorded just now. Say it again later.",
    )
}
