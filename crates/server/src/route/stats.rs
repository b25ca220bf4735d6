//! Numbers about emails and messages.

use std::sync::Arc;

use axum::extract::State;

use crate::access::{Allowed, Read};
use crate::app::App;
use crate::body::StatisticsBody;
use crate::json::{self, Json};
use crate::openapi::AccessProblems;
use crate::problem::Problem;

/// Show statistics
///
/// Of all owners together; they cost the same with ten emails and ten million.
#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "numbers",
    operation_id = "showStatistics",
    responses((status = 200, description = "The numbers", body = StatisticsBody), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
) -> Result<Json<StatisticsBody>, Problem> {
    let found = app.operator.statistics().await?;
    let messages = app.message_desk.statistics().await?;
    let now = app.operator.now();
    Ok(json::ok(StatisticsBody::of(&found, &messages, now)))
}
