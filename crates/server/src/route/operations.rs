//! One action over many dead letters.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use posthaste_core::operation::{OperationChange, OperationId, OperationStatus};
use posthaste_core::port::OperationChanged;
use posthaste_engine::Caller;

use crate::access::{Admin, Allowed, Read};
use crate::app::App;
use crate::body::{DryRun, NewOperationBody, OperationBody, OperationPage};
use crate::id::Id;
use crate::json::{self, Json, JsonBytes, Object};
use crate::openapi::{BodyProblems, ListProblems, MessageProblems, Problems};
use crate::problem::{Kind, Problem};
use crate::query::Parameters;

/// Act on many dead letters
///
/// On those that are dead now: whatever dies later is not part of it, and what dies again is not
/// retried again. It goes on in the background, at the pace that was asked for.
#[utoipa::path(
    post,
    path = "/v1/operations",
    tag = "dead letters",
    operation_id = "createOperation",
    request_body = NewOperationBody,
    responses(
        (status = 202, description = "It goes on in the background", body = OperationBody),
        (status = 200, description = "A dry run: nothing was changed", body = DryRun),
        BodyProblems
    ),
    security(("key" = ["admin"]))
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    body: JsonBytes,
) -> Result<Response, Problem> {
    let Object(wanted): Object<NewOperationBody> = body.parse()?;
    let wanted = wanted.wanted().map_err(Problem::invalid_fields)?;
    if wanted.dry_run {
        let filter = &wanted.new.filter;
        let answer = DryRun {
            dry_run: true,
            action: wanted.new.action.as_str(),
            count: app.operator.count_dead(filter, caller.owner()).await?,
        };
        return Ok(json::ok(answer).into_response());
    }
    let actor = caller.caller.actor();
    let operation = app.operator.begin_operation(wanted.new, &actor).await?;
    Ok(Json(StatusCode::ACCEPTED, OperationBody::from(operation)).into_response())
}

/// List operations
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/operations",
    tag = "dead letters",
    operation_id = "listOperations",
    params(("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "At most this many, from 1 to 500; 50 if left out")),
    responses((status = 200, description = "The operations", body = OperationPage), ListProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    parameters: Parameters,
) -> Result<Json<OperationPage>, Problem> {
    let limit = parameters.limit()?;
    let found = app.operator.operations(limit + 1, caller.owner()).await?;
    Ok(json::ok(OperationPage::of(found, limit)))
}

/// Show an operation
///
/// How far it has come.
#[utoipa::path(
    get,
    path = "/v1/operations/{id}",
    tag = "dead letters",
    operation_id = "getOperation",
    params(("id" = uuid::Uuid, Path, description = "Which operation")),
    responses((status = 200, description = "The operation", body = OperationBody), Problems),
    security(("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    Id(id): Id<OperationId>,
) -> Result<Json<OperationBody>, Problem> {
    let found = app.operator.operation(id, caller.owner()).await?;
    let operation = found.ok_or_else(Problem::no_such_operation)?;
    Ok(json::ok(operation.into()))
}

/// Stop an operation for now
///
/// Once this has answered, nothing more is treated until it is resumed.
#[utoipa::path(
    post,
    path = "/v1/operations/{id}/pause",
    tag = "dead letters",
    operation_id = "pauseOperation",
    params(("id" = uuid::Uuid, Path, description = "Which operation")),
    responses((status = 200, description = "It is paused", body = OperationBody), MessageProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id<OperationId>,
) -> Result<Json<OperationBody>, Problem> {
    change(&app, &caller.caller, id, OperationChange::Pause).await
}

/// Go on with an operation
#[utoipa::path(
    post,
    path = "/v1/operations/{id}/resume",
    tag = "dead letters",
    operation_id = "resumeOperation",
    params(("id" = uuid::Uuid, Path, description = "Which operation")),
    responses((status = 200, description = "It goes on", body = OperationBody), MessageProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id<OperationId>,
) -> Result<Json<OperationBody>, Problem> {
    change(&app, &caller.caller, id, OperationChange::Resume).await
}

/// End an operation
///
/// What was not treated yet stays a dead letter.
#[utoipa::path(
    post,
    path = "/v1/operations/{id}/cancel",
    tag = "dead letters",
    operation_id = "cancelOperation",
    params(("id" = uuid::Uuid, Path, description = "Which operation")),
    responses((status = 200, description = "It is over", body = OperationBody), MessageProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id<OperationId>,
) -> Result<Json<OperationBody>, Problem> {
    change(&app, &caller.caller, id, OperationChange::Cancel).await
}

async fn change(
    app: &App,
    caller: &Caller,
    id: OperationId,
    change: OperationChange,
) -> Result<Json<OperationBody>, Problem> {
    let actor = caller.actor();
    match app.operator.change_operation(id, change, &actor).await? {
        OperationChanged::Done(operation) => Ok(json::ok((*operation).into())),
        OperationChanged::Refused(status) => Err(Problem::new(Kind::Conflict, advice(status))),
        OperationChanged::NotFound => Err(Problem::no_such_operation()),
    }
}

/// Why it cannot be changed any more, and what to do instead.
pub(crate) fn advice(status: OperationStatus) -> String {
    let advice = match status {
        OperationStatus::Cancelled => {
            "What it did not get to is still dead: make a new operation for it."
        }
        _ => "Every email was treated; there is nothing left to do.",
    };
    format!("The operation is `{status}`. {advice}")
}
