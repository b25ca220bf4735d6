//! The operator's desk: what a team opens when mail is not arriving. One file per screen.
//!
//! Screens show what `engine::operator` tells and act through it, as the API and the command line
//! do. Everything works without scripts; with them, pages follow what happens.

mod audit;
mod bulk;
mod chart;
mod content;
mod dead_letters;
mod email;
mod email_queue;
mod email_timeline;
mod emails;
mod frame;
mod inbox;
mod live;
mod login;
mod messages;
mod operations;
mod overview;
mod pulse;
mod settings;
mod suppressions;
mod templates;
mod transports;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

pub(crate) use self::pulse::Pulse;
use crate::app::App;
use crate::page;

/// The routes for people.
pub(crate) fn pages() -> Router<Arc<App>> {
    let screens = Router::new()
        .route("/admin", get(overview::show))
        .route("/admin/live", get(live::stream))
        .route("/admin/emails", get(emails::list))
        .route("/admin/uncertain", get(emails::uncertain))
        .route("/admin/emails/{id}", get(email::show))
        .route("/admin/emails/{id}/html", get(content::html))
        .route("/admin/emails/{id}/source", get(content::source))
        .route("/admin/emails/{id}/download", get(content::download))
        .route("/admin/dead-letters", get(dead_letters::list))
        .route(
            "/admin/dead-letters/discarded",
            get(dead_letters::discarded),
        )
        .route("/admin/operations", get(operations::list))
        .route("/admin/operations/{id}", get(operations::show))
        .route("/admin/email-queue", get(email_queue::list))
        .route("/admin/messages", get(messages::list))
        .route("/admin/messages/{id}", get(messages::show))
        .route("/admin/transports", get(transports::list))
        .route("/admin/suppressions", get(suppressions::list))
        .route("/admin/templates", get(templates::list))
        .route("/admin/templates/new", get(templates::new))
        .route("/admin/templates/{id}", get(templates::show))
        .route("/admin/inbox", get(inbox::list))
        .route("/admin/inbox/{id}", get(inbox::show))
        .route("/admin/inbox/{id}/html", get(inbox::html))
        .route("/admin/inbox/{id}/source", get(inbox::source))
        .route("/admin/audit", get(audit::list))
        .route("/admin/settings", get(settings::show))
        .route("/admin/settings/keys", get(settings::again))
        .route("/admin/settings/admins", get(settings::again))
        .route("/admin/login", get(login::show).post(login::log_in))
        .route("/admin/logout", post(login::log_out))
        .route("/admin/assets/{name}", get(page::serve));
    actions()
        .into_iter()
        .fold(screens, |routes, (path, action)| routes.route(path, action))
}

/// The routes that change something. Their handlers take `Submitted`; a test tries each as someone
/// who may only look, without the token, and from another site.
fn actions() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
    vec![
        ("/admin/emails/{id}/retry", post(email::retry)),
        ("/admin/emails/{id}/cancel", post(email::cancel)),
        ("/admin/emails/{id}/discard", post(email::discard)),
        ("/admin/emails/{id}/restore", post(email::restore)),
        ("/admin/emails/{id}/erase", post(email::erase)),
        ("/admin/emails/{id}/resolve", post(email::resolve)),
        ("/admin/operations", post(bulk::begin)),
        ("/admin/operations/confirm", post(bulk::confirm)),
        ("/admin/operations/{id}/pause", post(operations::pause)),
        ("/admin/operations/{id}/resume", post(operations::resume)),
        ("/admin/operations/{id}/cancel", post(operations::cancel)),
        ("/admin/email-queue/{id}/retry", post(email_queue::retry)),
        (
            "/admin/email-queue/{id}/dismiss",
            post(email_queue::dismiss),
        ),
        ("/admin/transports/{name}/pause", post(transports::pause)),
        ("/admin/transports/{name}/resume", post(transports::resume)),
        ("/admin/suppressions", post(suppressions::add)),
        ("/admin/suppressions/remove", post(suppressions::remove)),
        ("/admin/templates", post(templates::save)),
        ("/admin/template-preview", post(templates::preview)),
        ("/admin/template-test", post(templates::test)),
        ("/admin/templates/{id}/delete", post(templates::delete)),
        ("/admin/messages/{id}/retry", post(messages::retry)),
        ("/admin/messages/{id}/discard", post(messages::discard)),
        ("/admin/settings/keys", post(settings::keys::create)),
        (
            "/admin/settings/keys/{id}/revoke",
            post(settings::keys::revoke),
        ),
        ("/admin/settings/admins", post(settings::admins::create)),
        (
            "/admin/settings/admins/{name}/role",
            post(settings::admins::change_role),
        ),
        (
            "/admin/settings/admins/{name}/password",
            post(settings::admins::change_password),
        ),
        (
            "/admin/settings/admins/{name}/remove",
            post(settings::admins::remove),
        ),
    ]
}

/// Where these are.
pub(crate) fn acting_routes() -> impl Iterator<Item = &'static str> {
    actions().into_iter().map(|(path, _)| path)
}
