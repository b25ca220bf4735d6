//! Retry policies: what there is, and when they try.

use std::sync::Arc;

use axum::extract::State;

use crate::access::{Allowed, Read};
use crate::app::App;
use crate::body::{PolicyList, Timeline, TimelineRequest};
use crate::json::{self, Json, JsonBytes, Object};
use crate::openapi::{AccessProblems, BodyProblems};
use crate::problem::Problem;

/// List retry policies
///
/// Those that emails and templates can name, as they are configured now.
#[utoipa::path(
    get,
    path = "/v1/retry-policies",
    tag = "templates",
    operation_id = "listRetryPolicies",
    responses((status = 200, description = "The policies", body = PolicyList), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, _caller: Allowed<Read>) -> Json<PolicyList> {
    json::ok(PolicyList::of(app.intake.templates().policies()))
}

/// Show when a retry policy tries
///
/// The moments of each attempt of an email that always fails.
#[utoipa::path(
    post,
    path = "/v1/retry-policies/preview",
    tag = "templates",
    operation_id = "previewRetryPolicy",
    request_body = TimelineRequest,
    responses((status = 200, description = "The attempts", body = Timeline), BodyProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
    body: JsonBytes,
) -> Result<Json<Timeline>, Problem> {
    let Object(wanted): Object<TimelineRequest> = body.parse()?;
    let policies = app.intake.templates().policies();
    let timeline = wanted.answer(policies, app.operator.now());
    Ok(json::ok(timeline.map_err(Problem::invalid_fields)?))
}
