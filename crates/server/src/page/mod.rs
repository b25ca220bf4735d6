//! Pages for people: one style sheet, one script, nothing from elsewhere.
//!
//! All text goes through maud, which escapes it. The headers allow our own scripts on our own
//! pages, and none at all in what someone wrote into an email.

mod asset;
mod component;
mod door;
mod powerless;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

pub(crate) use self::asset::{desk_script, serve, template_assets};
pub(crate) use self::component::*;
pub(crate) use self::door::{door, leading_on};
pub(crate) use self::powerless::powerless;
use crate::problem::Problem;

/// Our own style, script and frames, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src 'self' data:; frame-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";
/// For the HTML of an email: its own style, its own images, no loads, no scripts, no forms, no
/// way out of its frame.
const EMAIL_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox";

/// Which headers go with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A page of ours.
    Page,
    /// What someone wrote into an email.
    Email,
}

impl Guard {
    pub(crate) fn headers(self, content_type: &'static str) -> HeaderMap {
        // Without any referrer browsers hide from us, too, that a form is from a page of ours.
        let (policy, frames, referrer) = match self {
            Self::Page => (PAGE_POLICY, "DENY", "same-origin"),
            Self::Email => (EMAIL_POLICY, "SAMEORIGIN", "no-referrer"),
        };
        let pairs: [(HeaderName, &'static str); 6] = [
            (CONTENT_TYPE, content_type),
            (CONTENT_SECURITY_POLICY, policy),
            (X_FRAME_OPTIONS, frames),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, referrer),
            (CACHE_CONTROL, "no-store"),
        ];
        pairs
            .into_iter()
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }
}

/// A document with its headers.
pub(crate) fn document(
    guard: Guard,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    (guard.headers(content_type), body.into()).into_response()
}

/// A page of ours.
pub(crate) fn respond(page: Markup) -> Response {
    document(Guard::Page, "text/html; charset=utf-8", page.into_string())
}

/// What every page has in its head. Only the desk has a script.
pub(crate) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Posthaste" }
            link rel="icon" href=(asset::ICON.address());
            link rel="stylesheet" href=(asset::DESK_CSS.address());
        }
    }
}

/// The mark beside the name.
pub(crate) fn logo() -> Markup {
    html! {
        svg class="logo" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" {
            rect width="24" height="24" rx="6" {}
            path d="M5 8l7 5 7-5M5 8v8h14V8z" {}
        }
    }
}

/// A page that needs no navigation: the API's description, a problem.
pub(crate) fn layout(title: &str, content: &Markup, has_api: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                header class="top" {
                    a class="brand" href="/admin" { (logo()) "Posthaste" }
                    nav {
                        a href="/admin" { "Dashboard" }
                        @if has_api { a href="/docs" { "API" } }
                    }
                }
                main { (content) }
            }
        }
    }
}

/// A problem for people.
pub(crate) fn of_problem(problem: &Problem, has_api: bool) -> Response {
    let content = html! {
        h1 { (problem.title()) }
        p { (problem.detail()) }
    };
    let mut response = respond(layout(problem.title(), &content, has_api));
    *response.status_mut() = problem.status();
    response
}
