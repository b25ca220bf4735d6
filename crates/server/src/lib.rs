//! The HTTP face: API, the operator's desk, metrics and health.
//!
//! It translates between HTTP and the engine, and decides nothing about emails and messages itself. It
//! knows the engine and the core, never a store, broker or transport of its own.

mod access;
mod app;
mod around;
mod body;
mod desk;
mod id;
mod json;
mod openapi;
mod page;
mod problem;
mod query;
mod route;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::Route;
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tower::layer::layer_fn;

pub use self::app::{Limits, ServerParts, Setting};
pub use self::body::{EmailDetail, MessageBody, MessageDetail, OperationBody};
pub use self::openapi::openapi;
pub use self::serve::serve;
use crate::app::App;
use crate::around::Around;
use crate::problem::{Kind, Problem};

/// Everything the server answers. The peer's address is taken from
/// `axum::extract::ConnectInfo<SocketAddr>`; without it no request counts as local.
pub fn router(parts: ServerParts) -> Router {
    router_until(parts, CancellationToken::new())
}

/// Everything the server answers; not ready any more once `shutdown` is cancelled.
fn router_until(parts: ServerParts, shutdown: CancellationToken) -> Router {
    let routes = if parts.serves_api {
        Router::from(route::described())
            .merge(route::pages())
            .merge(desk::pages())
    } else {
        route::watched().into()
    };
    let app = Arc::new(App::new(parts, shutdown));
    around::start_at_zero(&app.metrics);
    routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(surround(Arc::clone(&app)))
        .with_state(app)
}

/// The operator's desk alone, for an application that has a router of its own: all pages below
/// `/admin` with what they need, and `/api/admin/outbox` and `/api/admin/dashboard`. Not the API,
/// its description, metrics or health.
///
/// It is made to be merged (`router.merge(desk(parts))`), not nested: pages refer to each other by
/// `/admin/…`. It has no fallback and no layer beyond its own routes, so everything else stays the
/// application's.
///
/// Those may come in who log in. While neither an admin nor a key exists, nobody may, and the login
/// page says how to make the first admin; or anyone on this machine, if
/// [`ServerParts::opens_locally`] says so. The peer's address is taken from
/// `axum::extract::ConnectInfo<SocketAddr>`; without it no request counts as local and nobody can
/// log in, so serve with `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// Open pages follow what happens by a stream that may last for minutes. An application that waits
/// for its connections when it stops should use [`desk_until`].
pub fn desk(parts: ServerParts) -> Router {
    desk_until(parts, CancellationToken::new())
}

/// The operator's desk alone; its streams end once `shutdown` is cancelled. See [`desk`].
pub fn desk_until(parts: ServerParts, shutdown: CancellationToken) -> Router {
    let parts = ServerParts {
        serves_api: false,
        ..parts
    };
    let app = Arc::new(App::new(parts, shutdown));
    Router::from(route::outbox())
        .merge(desk::pages())
        .method_not_allowed_fallback(method_not_allowed)
        .route_layer(surround(Arc::clone(&app)))
        .with_state(app)
}

/// Surrounds every request with what is the same for all.
fn surround(app: Arc<App>) -> impl Layer<Route, Service = Around> + Clone {
    layer_fn(move |route| Around::new(Arc::clone(&app), route))
}

/// The pages' routes that change something, all by POST, for a test that tries each.
#[doc(hidden)]
#[must_use]
pub fn acting_pages() -> Vec<&'static str> {
    desk::acting_routes().collect()
}

async fn no_such_route(uri: Uri) -> Problem {
    Problem::new(
        Kind::NotFound,
        format!(
            "There is nothing at {}; /docs says what there is.",
            uri.path()
        ),
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        Kind::MethodNotAllowed,
        format!(
            "{} does not take {method}; the Allow header says what it takes.",
            uri.path()
        ),
    )
}

/// Why the server must not listen here: without a key and without an admin it may only be reached
/// from this machine.
#[must_use]
pub fn refuses_to_listen(addr: SocketAddr, has_credentials: bool) -> Option<String> {
    if has_credentials || access::is_on_loopback(&addr) {
        return None;
    }
    Some(format!(
        "refusing to listen on {addr}: no API key and no admin exists yet, so anyone who reaches \
         this address could send mail. Make a key first (`{}`) or an admin (`{}`), or listen on \
         127.0.0.1:{}.",
        access::MAKE_A_KEY,
        access::MAKE_AN_ADMIN,
        addr.port()
    ))
}
