//! Metrics for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use posthaste_core::port::Statistics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::access::LocalOrReader;
use crate::app::App;
use crate::body::oldest_waiting_seconds;
use crate::openapi::AccessProblems;
use crate::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabel {
    version: &'static str,
}

/// A registry that says which version runs.
pub(crate) fn build_info(version: &'static str) -> Registry {
    let info = Family::<BuildLabel, Gauge>::default();
    info.get_or_create(&BuildLabel { version }).set(1);
    let mut registry = Registry::default();
    registry.register("posthaste_build_info", "The version that runs", info);
    registry
}

/// Metrics for Prometheus
///
/// From the server itself, or with a key that may read.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "numbers",
    operation_id = "showMetrics",
    responses(
        (status = 200, description = "OpenMetrics", body = String,
            content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        AccessProblems
    ),
    security((), ("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _caller: LocalOrReader,
) -> Result<Response, Problem> {
    let found = app.operator.statistics().await;
    app.metrics.store_up.set(found.is_ok().into());
    match found {
        Ok(found) => set_gauges(&app, &found),
        // What is counted in this process is worth seeing all the more.
        Err(error) => tracing::warn!(%error, "the gauges of emails could not be read"),
    }
    let in_trouble = app.broker.as_ref().is_some_and(|b| b.trouble().is_some());
    app.metrics.broker_up.set((!in_trouble).into());
    if let Some(broker) = &app.broker {
        app.metrics.set_broker(broker.counts());
    }
    let mut text = String::new();
    encode_registry(&mut text, &app.registry)
        .and_then(|()| encode_registry(&mut text, &app.build_info))
        .and_then(|()| encode_eof(&mut text))
        .map_err(|_| Problem::internal())?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

fn set_gauges(app: &App, found: &Statistics) {
    for (status, n) in &found.by_status {
        app.metrics.set_emails(*status, *n);
    }
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let oldest = oldest_waiting_seconds(found, app.operator.now()).unwrap_or(0);
    app.metrics.retries_due.set(signed(found.due));
    app.metrics.oldest_pending_age.set(signed(oldest));
}
