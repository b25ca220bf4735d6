//! Whether the server lives, and whether it is of use.
//!
//! Open to everyone, so it names what is in trouble, but not how: the log and
//! `posthaste doctor` say that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::future::join_all;
use posthaste_core::port::Transport;
use posthaste_engine::Ways;
use posthaste_engine::operator::TransportView;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use utoipa::ToSchema;

use crate::app::App;
use crate::body::state_of;
use crate::json::Json;

/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long what was found out about the transport counts.
const FRESH: Duration = Duration::from_secs(10);
/// How long the transport may take to answer.
const TRANSPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a health check waits for that.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether the server is of use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, `degraded`, `unavailable` or `draining`.
    #[schema(example = "ok")]
    status: &'static str,
    /// `ok` or `unavailable`.
    #[schema(example = "ok")]
    store: &'static str,
    /// What is in trouble without keeping the server from accepting emails.
    degraded: Vec<String>,
}

/// Whether the server lives
///
/// Checks nothing else.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "health",
    operation_id = "livez",
    responses((status = 200, description = "It lives", body = String)),
    security(())
)]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether the server is ready
///
/// It is as long as it can accept emails durably. A way out in trouble is named as degraded,
/// and emails wait meanwhile.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "readyz",
    responses(
        (status = 200, description = "It is ready", body = Health),
        (status = 503, description = "It is not, or not any more", body = Health)
    ),
    security(())
)]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> impl IntoResponse {
    let health = check(&app).await;
    let status = match health.status {
        "ok" | "degraded" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Json(status, health)
}

/// Whether the server is ready
///
/// The same as `/readyz`.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    operation_id = "healthz",
    responses(
        (status = 200, description = "It is ready", body = Health),
        (status = 503, description = "It is not, or not any more", body = Health)
    ),
    security(())
)]
pub(crate) async fn healthz(state: State<Arc<App>>) -> impl IntoResponse {
    readyz(state).await
}

async fn check(app: &App) -> Health {
    let store = tokio::time::timeout(STORE_TIMEOUT, app.operator.check());
    // What pages show is good enough here: a look at the store at most about once a second.
    let numbers = tokio::time::timeout(STORE_TIMEOUT, app.pulse.numbers(app));
    let checks = join_all(app.transports.iter().map(TransportHealth::is_in_trouble));
    let (store, numbers, in_trouble) = tokio::join!(store, numbers, checks);
    let trouble = match store {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("no answer in time".to_owned()),
    };
    if let Some(trouble) = &trouble {
        tracing::warn!(error = %trouble, "not ready: the store is in trouble");
    }
    let numbers = numbers.ok().and_then(Result::ok);
    let views = numbers.as_ref().map_or(&[][..], |numbers| &numbers.ways);
    let mut degraded: Vec<String> = app
        .transports
        .iter()
        .zip(in_trouble)
        .filter_map(|(transport, in_trouble)| {
            let name = transport.name();
            let view = views.iter().find(|view| view.name == name);
            degradation(name, view, in_trouble)
        })
        .collect();
    if let Some(trouble) = app.broker.as_ref().and_then(|broker| broker.trouble()) {
        tracing::debug!(%trouble, "the broker is in trouble");
        degraded.push("broker".to_owned());
    }
    let message_broker = app.message_broker.as_ref();
    if let Some(trouble) = message_broker.and_then(|broker| broker.trouble()) {
        tracing::debug!(%trouble, "the message broker is in trouble");
        degraded.push("message broker".to_owned());
    }
    let status = match (app.shutdown.is_cancelled(), &trouble) {
        (true, _) => "draining",
        (false, Some(_)) => "unavailable",
        (false, None) if !degraded.is_empty() => "degraded",
        (false, None) => "ok",
    };
    Health {
        status,
        store: if trouble.is_some() {
            "unavailable"
        } else {
            "ok"
        },
        degraded,
    }
}

/// What is said of a transport that is in trouble.
fn degradation(name: &str, view: Option<&TransportView>, in_trouble: bool) -> Option<String> {
    match view.map(|view| (view, state_of(view.way.as_ref(), view.condition))) {
        Some((view, state)) if state != "flowing" => Some(format!(
            "transport {name} is {state}, {} waiting",
            view.waiting
        )),
        _ => in_trouble.then(|| format!("transport {name}")),
    }
}

/// What is known about a way out. Health checks come often, and asking a mail server each
/// time would be rude; they also must not wait for one that hangs.
pub(crate) struct TransportHealth {
    transport: Arc<dyn Transport>,
    last: watch::Sender<Option<Finding>>,
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Clone, Copy)]
struct Finding {
    at: Instant,
    is_well: bool,
}

impl TransportHealth {
    /// What is known about each of these, which is nothing yet.
    pub(crate) fn of(ways: &Ways) -> Vec<Self> {
        let health = |transport: &Arc<dyn Transport>| Self {
            transport: Arc::clone(transport),
            last: watch::Sender::new(None),
            asking: Mutex::new(None),
        };
        ways.transports().map(health).collect()
    }

    fn name(&self) -> &str {
        self.transport.name()
    }

    /// Whether it did not answer as it should.
    async fn is_in_trouble(&self) -> bool {
        let mut news = self.last.subscribe();
        let is_fresh = |last: &Option<Finding>| last.is_some_and(|l| l.at.elapsed() < FRESH);
        if !is_fresh(&self.last.borrow()) {
            self.ask();
            // In vain if it takes long: then what was known before counts.
            let _ = tokio::time::timeout(PATIENCE, news.changed()).await;
        }
        let last = *self.last.borrow();
        last.is_some_and(|last| !last.is_well)
    }

    /// Asks in the background, unless that is under way.
    fn ask(&self) {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (transport, last) = (Arc::clone(&self.transport), self.last.clone());
        *asking = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let answer = tokio::time::timeout(TRANSPORT_TIMEOUT, transport.check()).await;
            let trouble = match answer {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => Some("no answer in time".to_owned()),
            };
            if let Some(error) = &trouble {
                tracing::warn!(%error, transport = transport.name(), "the transport is in trouble");
            }
            last.send_replace(Some(Finding {
                at: Instant::now(),
                is_well: trouble.is_none(),
            }));
        })));
    }
}
