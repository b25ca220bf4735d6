//! Who did what.

use std::sync::Arc;

use axum::extract::State;
use posthaste_core::port::AuditFilter;

use crate::access::{Admin, Allowed};
use crate::app::App;
use crate::body::AuditPage;
use crate::json::{self, Json};
use crate::openapi::ListProblems;
use crate::problem::Problem;
use crate::query::Parameters;

/// List what operators did
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "numbers",
    operation_id = "listAudit",
    params(("limit" = Option<usize>, Query, description = "At most this many, from 1 to 500; 50 if left out")),
    responses((status = 200, description = "The entries", body = AuditPage), ListProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Allowed<Admin>,
    parameters: Parameters,
) -> Result<Json<AuditPage>, Problem> {
    let limit = parameters.limit()?;
    let entries = app.operator.audit(&AuditFilter::newest(limit + 1)).await?;
    Ok(json::ok(AuditPage::of(entries, limit)))
}
