//! Who did what.

use std::sync::Arc;

use axum::extract::State;
use posthaste_core::port::{AuditEntry, AuditFilter, StoreResult};

use crate::access::{Admin, Allowed};
use crate::app::App;
use crate::body::AuditPage;
use crate::json::{self, Json};
use crate::openapi::ListProblems;
use crate::problem::Problem;
use crate::query::{AuditParameters, Parameters};

/// List what operators did
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "numbers",
    operation_id = "listAudit",
    params(AuditParameters),
    responses((status = 200, description = "The entries", body = AuditPage), ListProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Allowed<Admin>,
    parameters: Parameters,
) -> Result<Json<AuditPage>, Problem> {
    let (entries, next) = audit_page(&app, parameters.audit_filter()?).await?;
    Ok(json::ok(AuditPage::of(entries, next)))
}

/// The entries that are asked for, and after which one the next page begins, if there is one.
pub(crate) async fn audit_page(
    app: &App,
    mut filter: AuditFilter,
) -> StoreResult<(Vec<AuditEntry>, Option<i64>)> {
    let limit = filter.limit;
    filter.limit += 1;
    let mut entries = app.operator.audit(&filter).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().map(|entry| entry.number);
    Ok((entries, next.filter(|_| has_more)))
}
