//! Seed 004's routes, for dashboards of other applications.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Action, EmailFilter};
use posthaste_core::status::Status;
use posthaste_engine::operator::LONGEST_LIST;

use super::action::act;
use crate::access::{Admin, Allowed, Read};
use crate::app::App;
use crate::body::{ActedBody, DashboardBody, OutboxEntryBody};
use crate::id::Id;
use crate::json::{self, Json};
use crate::openapi::{AccessProblems, ActionProblems};
use crate::problem::{Kind, Problem};

/// List the outbox
///
/// Emails that are not delivered, newest first: `pending` ones and `failed` ones, at most 500.
#[utoipa::path(
    get,
    path = "/api/admin/outbox",
    tag = "outbox",
    operation_id = "listOutbox",
    responses((status = 200, description = "The entries", body = Vec<OutboxEntryBody>), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
) -> Result<Json<Vec<OutboxEntryBody>>, Problem> {
    let filter = EmailFilter {
        owner: caller.owner().map(str::to_owned),
        statuses: Status::UNDELIVERED.to_vec(),
        limit: LONGEST_LIST,
        ..EmailFilter::default()
    };
    let page = app.operator.list(filter).await?;
    let entries = page.emails.into_iter().map(|email| {
        let max_attempts = app.operator.max_attempts(&email);
        OutboxEntryBody::of(email, max_attempts)
    });
    Ok(json::ok(entries.collect()))
}

/// Retry an entry
///
/// It starts over with a fresh budget, now. Only a failed one can be retried.
#[utoipa::path(
    post,
    path = "/api/admin/outbox/{id}/retry",
    tag = "outbox",
    operation_id = "retryOutboxEntry",
    params(("id" = uuid::Uuid, Path, description = "Which entry")),
    responses((status = 200, description = "It is pending again", body = ActedBody), ActionProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
) -> Result<Json<ActedBody>, Problem> {
    only_failed(&app, &caller, id, "is tried again by itself").await?;
    act(&app, &caller.caller, id, Action::Retry).await
}

/// Dismiss an entry
///
/// It leaves the outbox for good. Only a failed one can be dismissed.
#[utoipa::path(
    delete,
    path = "/api/admin/outbox/{id}",
    tag = "outbox",
    operation_id = "dismissOutboxEntry",
    params(("id" = uuid::Uuid, Path, description = "Which entry")),
    responses((status = 204, description = "It is gone"), ActionProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn dismiss(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
) -> Result<StatusCode, Problem> {
    only_failed(&app, &caller, id, "may still be delivered").await?;
    act(&app, &caller.caller, id, Action::Discard).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses an entry that has not failed.
async fn only_failed(
    app: &App,
    caller: &Allowed<Admin>,
    id: EmailId,
    otherwise: &str,
) -> Result<(), Problem> {
    let email = app.operator.find(id, caller.owner()).await?;
    let email = email.filter(|email| Status::UNDELIVERED.contains(&email.state.status));
    let email = email.ok_or_else(Problem::no_such_email)?;
    if email.state.status == Status::Dead {
        return Ok(());
    }
    let message = format!("The email is pending: it has not failed, and {otherwise}.");
    Err(Problem::new(Kind::Conflict, message))
}

/// Show the numbers of the outbox
///
/// Of all owners together.
#[utoipa::path(
    get,
    path = "/api/admin/dashboard",
    tag = "outbox",
    operation_id = "showDashboard",
    responses((status = 200, description = "The numbers", body = DashboardBody), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn dashboard(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
) -> Result<Json<DashboardBody>, Problem> {
    let found = app.operator.statistics().await?;
    let count = |status: &Status| found.by_status.get(status).copied().unwrap_or(0);
    let all: u64 = Status::UNDELIVERED.iter().map(count).sum();
    let failed = count(&Status::Dead);
    Ok(json::ok(DashboardBody {
        pending_email_count: all - failed,
        failed_email_count: failed,
    }))
}
