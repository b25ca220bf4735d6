//! The ways out: how they do, and pausing them by hand.

use std::sync::Arc;

use axum::extract::State;
use posthaste_core::address::Address;
use posthaste_core::way::WayName;
use posthaste_engine::Caller;
use posthaste_engine::operator::{Switched, TransportView};

use crate::access::{Admin, Allowed, Read};
use crate::app::App;
use crate::body::{TransportBody, TransportList};
use crate::id::Named;
use crate::json::{self, Json};
use crate::openapi::{AccessProblems, Problems};
use crate::problem::{Kind, Problem};

/// List the ways out
///
/// How each does, and what waits for it: emails that wait for a way out spend no attempts.
#[utoipa::path(
    get,
    path = "/v1/transports",
    tag = "transports",
    operation_id = "listTransports",
    responses((status = 200, description = "The transports", body = TransportList), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
) -> Result<Json<TransportList>, Problem> {
    let views = app.operator.transports().await?;
    Ok(json::ok(TransportList::of(views, caller.owner().is_none())))
}

/// Show a way out
#[utoipa::path(
    get,
    path = "/v1/transports/{name}",
    tag = "transports",
    operation_id = "showTransport",
    params(("name" = String, Path, description = "Which transport")),
    responses((status = 200, description = "The transport", body = TransportBody), Problems),
    security(("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    Named(name): Named,
) -> Result<Json<TransportBody>, Problem> {
    let view = find(&app, &name).await?;
    Ok(json::ok(TransportBody::of(view, caller.owner().is_none())))
}

/// Pause a way out
///
/// Nothing goes by it until it is resumed; emails wait for it, or take another way of their route.
#[utoipa::path(
    post,
    path = "/v1/transports/{name}/pause",
    tag = "transports",
    operation_id = "pauseTransport",
    params(("name" = String, Path, description = "Which transport, or a domain by it as `smtp@example.net`")),
    responses((status = 200, description = "It is paused", body = TransportBody), Problems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Named(name): Named,
) -> Result<Json<TransportBody>, Problem> {
    let way = switch(&app, &caller.caller, &name, Switch::Pause).await?;
    let view = find(&app, &way.transport).await?;
    Ok(json::ok(TransportBody::of(view, true)))
}

/// Resume a way out
///
/// It takes up again slowly. One that is stopped is tested now instead of at its next probe.
#[utoipa::path(
    post,
    path = "/v1/transports/{name}/resume",
    tag = "transports",
    operation_id = "resumeTransport",
    params(("name" = String, Path, description = "Which transport, or a domain by it as `smtp@example.net`")),
    responses((status = 200, description = "It is not paused", body = TransportBody), Problems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Named(name): Named,
) -> Result<Json<TransportBody>, Problem> {
    let way = switch(&app, &caller.caller, &name, Switch::Resume).await?;
    let view = find(&app, &way.transport).await?;
    Ok(json::ok(TransportBody::of(view, true)))
}

/// What an operator says to a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Nothing goes by it any more.
    Pause,
    /// It may go again.
    Resume,
}

/// Pauses or resumes a way for this caller, and says which it was.
pub(crate) async fn switch(
    app: &App,
    caller: &Caller,
    name: &str,
    switch: Switch,
) -> Result<WayName, Problem> {
    let way = way_of(name).ok_or_else(|| no_such_transport(app, name))?;
    let (name, actor) = (way.to_string(), caller.actor());
    let switched = match switch {
        Switch::Pause => app.operator.pause_transport(&name, &actor).await?,
        Switch::Resume => app.operator.resume_transport(&name, &actor).await?,
    };
    match switched {
        Switched::Done => app.pulse.refresh().await,
        Switched::Unchanged => {}
        Switched::NotFound => return Err(no_such_transport(app, &way.transport)),
    }
    Ok(way)
}

/// The way of this name; none if what stands for a domain cannot be one.
fn way_of(name: &str) -> Option<WayName> {
    match name.split_once('@') {
        None => Some(WayName::transport(name)),
        Some((transport, domain)) => {
            let someone = Address::parse(&format!("postmaster@{domain}")).ok()?;
            Some(WayName::domain(transport, someone.domain()))
        }
    }
}

async fn find(app: &App, name: &str) -> Result<TransportView, Problem> {
    let mut views = app.operator.transports().await?.into_iter();
    let found = views.find(|view| view.name == name);
    found.ok_or_else(|| no_such_transport(app, name))
}

/// There is no transport of this name, but there are others.
fn no_such_transport(app: &App, name: &str) -> Problem {
    let known: Vec<_> = app.ways.transports().map(|one| one.name()).collect();
    let name: String = name.chars().take(100).collect();
    let detail = format!(
        "There is no transport `{}`; known are: {}.",
        name.escape_debug(),
        known.join(", ")
    );
    Problem::new(Kind::NotFound, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_a_transport_or_a_domain_by_it() {
        let way = |name| way_of(name).map(|way| way.to_string());
        assert_eq!(way("smtp").as_deref(), Some("smtp"));
        assert_eq!(way("smtp@Example.NET").as_deref(), Some("smtp@example.net"));
        for wrong in ["smtp@", "smtp@a@b", "smtp@a,b", "smtp@a b"] {
            assert_eq!(way(wrong), None, "{wrong}");
        }
    }
}
