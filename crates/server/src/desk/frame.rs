//! What surrounds every screen: the navigation, who is looking, and what is to be said once.

use std::sync::Arc;

use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};
use posthaste_core::message::MessageStatus;
use posthaste_core::status::Status;

use super::pulse::Numbers;
use super::transports::trouble_count;
use crate::access::{NOTICE_COOKIE, Visitor};
use crate::app::App;
use crate::page;
use crate::problem::Problem;

/// The screens, in the order of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Emails,
    DeadLetters,
    Uncertain,
    Queue,
    Messages,
    Operations,
    Transports,
    Suppressions,
    Templates,
    Inbox,
    Audit,
    Settings,
}

impl Section {
    const ALL: [Self; 13] = [
        Self::Overview,
        Self::Emails,
        Self::DeadLetters,
        Self::Uncertain,
        Self::Queue,
        Self::Messages,
        Self::Operations,
        Self::Transports,
        Self::Suppressions,
        Self::Templates,
        Self::Inbox,
        Self::Audit,
        Self::Settings,
    ];

    const fn link(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("/admin", "Overview"),
            Self::Emails => ("/admin/emails", "Emails"),
            Self::DeadLetters => ("/admin/dead-letters", "Dead letters"),
            Self::Uncertain => ("/admin/uncertain", "Uncertain"),
            Self::Queue => ("/admin/email-queue", "Email queue"),
            Self::Messages => ("/admin/messages", "Messages"),
            Self::Operations => ("/admin/operations", "Operations"),
            Self::Transports => ("/admin/transports", "Transports"),
            Self::Suppressions => ("/admin/suppressions", "Suppressions"),
            Self::Templates => ("/admin/templates", "Templates"),
            Self::Inbox => ("/admin/inbox", "Inbox"),
            Self::Audit => ("/admin/audit", "Audit log"),
            Self::Settings => ("/admin/settings", "Settings"),
        }
    }

    /// How many things of this section someone should look at, and what they are called.
    fn badge(self, numbers: &Numbers) -> Option<(u64, &'static str)> {
        let failed = || numbers.messages.by_status.get(&MessageStatus::Failed);
        let (count, what) = match self {
            Self::DeadLetters => (numbers.count(Status::Dead), "dead letters"),
            Self::Uncertain => (numbers.count(Status::Unknown), "uncertain emails"),
            Self::Messages => (failed().copied().unwrap_or(0), "messages in review"),
            Self::Transports => (trouble_count(&numbers.ways), "transports in trouble"),
            _ => return None,
        };
        (count > 0).then_some((count, what))
    }
}

/// A whole page.
pub(crate) async fn show(
    app: &Arc<App>,
    visitor: &Visitor,
    section: Section,
    title: &str,
    content: &Markup,
) -> Result<Response, Problem> {
    let numbers = app.pulse.numbers(app).await?;
    let mut response = page::respond(whole(app, visitor, section, title, &numbers, content));
    if visitor.notice.is_some() {
        let over = format!("{NOTICE_COOKIE}=; Path=/admin; Max-Age=0; HttpOnly; SameSite=Strict");
        if let Ok(over) = HeaderValue::from_str(&over) {
            response.headers_mut().append(SET_COOKIE, over);
        }
    }
    Ok(response)
}

fn whole(
    app: &App,
    visitor: &Visitor,
    section: Section,
    title: &str,
    numbers: &Numbers,
    content: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (page::head(title))
            body class="desk" data-csrf=(visitor.csrf_token()) {
                (page::desk_script())
                a class="skip" href="#main" { "Skip to the content" }
                header class="side" {
                    a class="brand" href="/admin" { (page::logo()) "Posthaste" }
                    details class="menu" {
                        summary { "Menu" (badges(numbers)) }
                        (navigation(section, numbers, app.serves_api))
                    }
                    (navigation(section, numbers, app.serves_api))
                    (who(visitor))
                }
                main id="main" tabindex="-1" {
                    @if let Some(notice) = &visitor.notice {
                        p class="notice" role="status" { (notice) }
                    }
                    div class="fresh" data-fresh hidden role="status" {
                        a href="" { "There is something new. Show it" }
                    }
                    (content)
                }
            }
        }
    }
}

/// What stands on the closed menu of a phone.
fn badges(numbers: &Numbers) -> Markup {
    let dead = Section::DeadLetters.badge(numbers);
    html! {
        span data-live="menu-badge" {
            @if let Some((count, what)) = dead { " " (badge(count, what)) }
        }
    }
}

fn badge(count: u64, what: &str) -> Markup {
    html! {
        span class="badge" { (page::number(count)) span class="hidden" { " " (what) } }
    }
}

fn navigation(section: Section, numbers: &Numbers, has_api: bool) -> Markup {
    html! {
        nav aria-label="Screens" {
            ul {
                @for one in Section::ALL {
                    @let (address, name) = one.link();
                    li {
                        a href=(address) aria-current=[(one == section).then_some("page")] {
                            (name)
                            span data-live={ "badge-" (name) } {
                                @if let Some((count, what)) = one.badge(numbers) { (badge(count, what)) }
                            }
                        }
                    }
                }
                @if has_api { li { a href="/docs" { "API" } } }
            }
        }
    }
}

fn who(visitor: &Visitor) -> Markup {
    html! {
        div class="who" {
            @if visitor.caller.name == "loopback" {
                span class="faint" { "No login yet: only this machine is answered." }
            } @else {
                span { (visitor.caller.name) }
                @if !visitor.may_act() { span class="faint" { " (may look, not change)" } }
                @if visitor.session().is_some() {
                    form method="post" action="/admin/logout" {
                        (visitor.csrf_field())
                        button { "Log out" }
                    }
                }
            }
        }
    }
}

/// Sends the browser to a page, which says what was done.
pub(crate) fn done(to: &str, notice: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(LOCATION, to);
    }
    let notice: String = form_urlencoded::byte_serialize(notice.as_bytes()).collect();
    let cookie =
        format!("{NOTICE_COOKIE}={notice}; Path=/admin; Max-Age=60; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

/// Where a form wants to lead back to: a page of ours, or `otherwise`.
pub(crate) fn back<'a>(wanted: Option<&'a str>, otherwise: &'a str) -> &'a str {
    let ours = |to: &&str| {
        (*to == "/admin" || to.starts_with("/admin/") || to.starts_with("/admin?"))
            && to.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
    };
    wanted.filter(ours).unwrap_or(otherwise)
}
