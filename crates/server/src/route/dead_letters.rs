//! Dead letters: emails that were given up.

use std::sync::Arc;

use axum::extract::State;
use posthaste_core::port::Action;

use super::action::act;
use crate::access::{Admin, Allowed, Read};
use crate::app::App;
use crate::body::{ActedBody, DeadGroups, EmailPage, RetryBody};
use crate::id::Id;
use crate::json::{self, Json, MaybeJson};
use crate::openapi::{AccessProblems, ActionProblems, BodyProblems, ListProblems};
use crate::problem::Problem;
use crate::query::{ListParameters, Parameters};

/// List dead letters
///
/// Newest first, in pages.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    operation_id = "listDeadLetters",
    params(
        ListParameters,
        ("fingerprint" = Option<String>, Query, description = "Only those that died of this"),
    ),
    responses((status = 200, description = "A page of dead letters", body = EmailPage), ListProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    parameters: Parameters,
) -> Result<Json<EmailPage>, Problem> {
    let filter = parameters.dead_filter(caller.owner())?;
    let page = app.operator.list(filter).await?;
    Ok(json::ok(EmailPage::of(page, &app.operator)))
}

/// Group dead letters
///
/// By what they died of, most first.
#[utoipa::path(
    get,
    path = "/v1/dead-letters/groups",
    tag = "dead letters",
    operation_id = "groupDeadLetters",
    responses((status = 200, description = "The groups", body = DeadGroups), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn groups(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
) -> Result<Json<DeadGroups>, Problem> {
    let groups = app.operator.dead_groups(caller.owner()).await?;
    Ok(json::ok(groups.into()))
}

/// Try a dead letter again now
///
/// With a fresh budget of attempts. One whose `expires_at` is over only with `even_if_expired`.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/retry",
    tag = "dead letters",
    operation_id = "retryDeadLetter",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    request_body = Option<RetryBody>,
    responses(
        (status = 200, description = "It waits for its next attempt", body = ActedBody),
        ActionProblems,
        BodyProblems
    ),
    security(("key" = ["admin"]))
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
    body: MaybeJson,
) -> Result<Json<ActedBody>, Problem> {
    let asked: RetryBody = body.parse()?;
    act(&app, &caller.caller, id, asked.action()).await
}

/// Give up on a dead letter for good
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/discard",
    tag = "dead letters",
    operation_id = "discardDeadLetter",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    responses((status = 200, description = "It is discarded", body = ActedBody), ActionProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn discard(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, Action::Discard).await
}

/// Take back that a dead letter was discarded
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/restore",
    tag = "dead letters",
    operation_id = "restoreDeadLetter",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    responses((status = 200, description = "It is a dead letter again", body = ActedBody), ActionProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, Action::Restore).await
}
