//! What is answered where: one file per noun.

mod action;
mod audit;
mod dead_letters;
pub(crate) mod docs;
mod emails;
pub(crate) mod health;
mod messages;
pub(crate) mod metrics;
mod operations;
mod outbox;
mod provider_events;
mod retry_policies;
mod stats;
mod suppressions;
mod templates;
mod transports;

use std::sync::Arc;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::action::act;
pub(crate) use self::audit::audit_page;
pub(crate) use self::messages::act as act_on_message;
pub(crate) use self::operations::advice as operation_advice;
pub(crate) use self::suppressions::{not_on_the_list, owner_for, seen, suppress};
pub(crate) use self::templates::{TemplateName, no_such_template};
pub(crate) use self::transports::{Switch, switch};
use crate::app::App;
use crate::openapi::Description;

/// The routes that are part of the API's description.
pub(crate) fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(emails::create, emails::list))
        .routes(routes!(emails::create_batch))
        .routes(routes!(emails::show))
        .routes(routes!(emails::cancel))
        .routes(routes!(emails::retry))
        .routes(routes!(emails::resolve))
        .routes(routes!(emails::erase))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::groups))
        .routes(routes!(dead_letters::retry))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(dead_letters::restore))
        .routes(routes!(operations::create, operations::list))
        .routes(routes!(operations::show))
        .routes(routes!(operations::pause))
        .routes(routes!(operations::resume))
        .routes(routes!(operations::cancel))
        .routes(routes!(messages::list))
        .routes(routes!(messages::show))
        .routes(routes!(messages::retry))
        .routes(routes!(messages::discard))
        .routes(routes!(templates::list))
        .routes(routes!(templates::show, templates::save, templates::delete))
        .routes(routes!(templates::versions))
        .routes(routes!(templates::preview))
        .routes(routes!(retry_policies::list))
        .routes(routes!(retry_policies::preview))
        .routes(routes!(transports::list))
        .routes(routes!(transports::show))
        .routes(routes!(transports::pause))
        .routes(routes!(transports::resume))
        .routes(routes!(provider_events::create))
        .routes(routes!(suppressions::list, suppressions::create))
        .routes(routes!(suppressions::delete))
        .routes(routes!(stats::show))
        .routes(routes!(audit::list))
        .merge(outbox())
        .merge(watched())
}

/// Seed 004's routes, which go with the desk.
pub(crate) fn outbox() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(outbox::list))
        .routes(routes!(outbox::retry))
        .routes(routes!(outbox::dismiss))
        .routes(routes!(outbox::dashboard))
}

/// The routes that every process has, whatever its roles.
pub(crate) fn watched() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(metrics::show))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::healthz))
}

/// The routes for people.
pub(crate) fn pages() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/admin") }))
        .route("/openapi.json", get(docs::openapi))
        .route("/docs", get(docs::show))
}
