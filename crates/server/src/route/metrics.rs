//! Metrics for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use posthaste_core::Timestamp;
use posthaste_core::port::{MessageStatistics, Statistics};
use posthaste_engine::operator::TransportView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::access::LocalOrReader;
use crate::app::App;
use crate::body::{is_paused, messages_by_status, seconds_since};
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
    // All at once: a store that is away is waited for once.
    let (found, messages, ways) = tokio::join!(
        app.operator.statistics(),
        app.message_desk.statistics(),
        app.operator.transports()
    );
    let is_up = found.is_ok() && messages.is_ok() && ways.is_ok();
    app.metrics.store_up.set(is_up.into());
    match found {
        Ok(found) => set_gauges(&app, &found),
        // What is counted in this process is worth seeing all the more.
        Err(error) => tracing::warn!(%error, "the gauges of emails could not be read"),
    }
    match messages {
        Ok(found) => set_message_gauges(&app, &found),
        Err(error) => tracing::warn!(%error, "the gauges of messages could not be read"),
    }
    match ways {
        Ok(found) => set_ways(&app, &found),
        Err(error) => tracing::warn!(%error, "the gauges of transports could not be read"),
    }
    set_brokers(&app);
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
    app.metrics.retries_due.set(signed(found.due));
    let oldest = age(found.oldest_waiting, app.operator.now());
    app.metrics.oldest_pending_age.set(oldest);
}

fn set_message_gauges(app: &App, found: &MessageStatistics) {
    for (status, n) in messages_by_status(found) {
        app.message_metrics.set_messages(status, n);
    }
    let oldest = age(found.oldest_due, app.message_desk.now());
    app.message_metrics.oldest_due_age.set(oldest);
}

fn set_ways(app: &App, found: &[TransportView]) {
    for view in found {
        app.metrics.set_waiting(&view.name, view.waiting);
        let is_paused = is_paused(view.way.as_ref());
        let condition = (!is_paused).then_some(view.condition);
        app.metrics.set_transport(&view.name, condition);
    }
}

/// What the brokers have counted, and whether all of them are well.
fn set_brokers(app: &App) {
    let mut in_trouble = false;
    if let Some(broker) = &app.broker {
        in_trouble |= broker.trouble().is_some();
        app.metrics.set_broker(broker.counts());
    }
    if let Some(broker) = &app.message_broker {
        in_trouble |= broker.trouble().is_some();
        app.message_metrics.set_broker(broker.counts());
    }
    app.metrics.broker_up.set((!in_trouble).into());
}

/// Seconds since the oldest became due; 0 if nothing waits.
fn age(oldest: Option<Timestamp>, now: Timestamp) -> i64 {
    oldest.map_or(0, |due| signed(seconds_since(due, now)))
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
