//! Settings: who may log in, which keys there are, how long things are kept, and the configuration
//! that is in force. Viewers see it, operators change what can be changed.

pub(super) mod admins;
pub(super) mod configuration;
pub(super) mod keys;
mod ways;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Redirect, Response};
use maud::{Markup, html};

pub(super) use self::ways::limits;
use super::frame::{self, Section};
use crate::access::Visitor;
use crate::app::App;
use crate::problem::Problem;

const HERE: &str = "/admin/settings";

/// What there is to say about what was just tried.
#[derive(Default)]
enum Said {
    /// Nothing was tried.
    #[default]
    Nothing,
    /// It was refused: in which part of the page, and why.
    Refused(Part, String),
    /// A key was made. Its secret is shown only now.
    Made { key: String, secret: String },
}

/// A part of the page where something can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Admins,
    Keys,
}

impl Said {
    /// Why something was refused in this part.
    fn refusal(&self, part: Part) -> Markup {
        html! {
            @if let Self::Refused(place, message) = self && *place == part {
                p class="error" role="alert" { (message) }
            }
        }
    }
}

/// The page.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    page(&app, &visitor, &Said::Nothing).await
}

/// Where a form was answered with the page itself, its address leads back to it.
pub(super) async fn again() -> Redirect {
    Redirect::to(HERE)
}

/// The page again, with why nothing was changed.
async fn refused(
    app: &Arc<App>,
    visitor: &Visitor,
    part: Part,
    message: String,
) -> Result<Response, Problem> {
    let said = Said::Refused(part, message);
    let mut response = page(app, visitor, &said).await?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

async fn page(app: &Arc<App>, visitor: &Visitor, said: &Said) -> Result<Response, Problem> {
    visitor.sees_everything()?;
    let admins = app.admins.all().await?;
    let keys = app.access.keys().await?;
    let channels = app.operator.alert_channels().await?;
    let now = app.operator.now();
    let content = html! {
        h1 { "Settings" }
        nav class="tabs" aria-label="Parts of this page" {
            @for (anchor, name) in [
                ("admins", "Admins"), ("keys", "API keys"), ("kept", "Retention"), ("alerts", "Alerts"),
                ("ways", "Ways out"),
                ("configuration", "Configuration"),
            ] {
                a href={ "#" (anchor) } { (name) }
            }
        }
        (admins::part(visitor, &admins, said, now))
        (keys::part(visitor, &keys, said, now))
        (configuration::retention(&app.configuration))
        (configuration::alerts(&channels, now))
        (ways::part(&app.ways, app.serves_api))
        (configuration::part(&app.configuration))
    };
    frame::show(app, visitor, Section::Settings, "Settings", &content).await
}

/// A button that asks before it does something that cannot be taken back.
fn asked(visitor: &Visitor, to: &str, name: &str, question: &str) -> Markup {
    html! {
        details class="ask" {
            summary class="button danger" { (name) "…" }
            form method="post" action=(to) {
                (visitor.csrf_field())
                p { (question) }
                button class="danger" { (name) }
            }
        }
    }
}
