//! Pages for people: one layout, one style sheet, nothing from elsewhere.
//!
//! All text goes through maud, which escapes it. The headers allow no scripts at all.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::problem::Problem;

const STYLE: &str = include_str!("style.css");

/// Our own style and frames, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; frame-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
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
        let (policy, frames) = match self {
            Self::Page => (PAGE_POLICY, "DENY"),
            Self::Email => (EMAIL_POLICY, "SAMEORIGIN"),
        };
        let pairs: [(HeaderName, &'static str); 6] = [
            (CONTENT_TYPE, content_type),
            (CONTENT_SECURITY_POLICY, policy),
            (X_FRAME_OPTIONS, frames),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
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

/// The frame of every page.
pub(crate) fn layout(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Posthaste" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/style.css";
            }
            body {
                header {
                    strong { "Posthaste" }
                    nav { a href="/admin/inbox" { "Inbox" } a href="/docs" { "API" } }
                }
                main { (content) }
            }
        }
    }
}

/// A problem for people.
pub(crate) fn of_problem(problem: &Problem) -> Response {
    let content = html! {
        h1 { (problem.title()) }
        p { (problem.detail()) }
    };
    let mut response = respond(layout(problem.title(), &content));
    *response.status_mut() = problem.status();
    response
}

/// The style sheet.
pub(crate) async fn style() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/css; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "max-age=3600"),
    ];
    (headers, STYLE)
}
