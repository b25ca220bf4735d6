//! The dev inbox: mail that was captured instead of sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::EmailRecord;
use posthaste_core::port::{Captured, EmailFilter};

use super::content;
use super::frame::{self, Section};
use crate::access::Visitor;
use crate::app::App;
use crate::id::Id;
use crate::page::{empty, full, moment, status, subject_or};
use crate::problem::{Kind, Problem};
use crate::query::Parameters;

/// How many emails the list shows.
const MOST: usize = 100;

/// The list of captured mail.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let captures = app.operator.captures(MOST).await?;
    let filter = EmailFilter {
        owner: visitor.owner().map(str::to_owned),
        ids: captures.iter().map(|captured| captured.email_id).collect(),
        limit: MOST,
        ..EmailFilter::default()
    };
    // Without ids a filter means all.
    let emails = match filter.ids.is_empty() {
        true => Vec::new(),
        false => app.operator.list(filter).await?.emails,
    };
    let emails: BTreeMap<_, _> = emails.into_iter().map(|email| (email.id, email)).collect();
    let entries: Vec<_> = captures
        .iter()
        .map(|captured| (captured, emails.get(&captured.email_id)))
        .filter(|(_, email)| email.is_some() || visitor.owner().is_none())
        .collect();
    let content = html! {
        h1 { "Inbox" }
        p class="faint" {
            "Mail that was captured instead of sent: the newest " (MOST) ", newest first."
        }
        @if entries.is_empty() && !app.captures() {
            @let ways: Vec<_> = app.ways.transports().map(|one| one.name()).collect();
            (empty(false, "Nothing is captured here", &html! {
                "Mail goes out by " (ways.join(", ")) ". " a href="/admin/emails" { "Emails" }
                " shows what became of each."
            }))
        } @else if entries.is_empty() {
            (empty(false, "Nothing was captured yet", &html! {
                @if app.serves_api { "Send an email with " code { "POST /v1/emails" } "." }
                @else { "What the application sends is seen here." }
            }))
        } @else {
            (table(&app, &entries))
        }
    };
    frame::show(&app, &visitor, Section::Inbox, "Inbox", &content).await
}

fn table(app: &App, entries: &[(&Captured, Option<&EmailRecord>)]) -> Markup {
    let now = app.operator.now();
    html! {
        table class="list" {
            thead { tr { @for name in ["Subject", "From", "To", "Captured", "Status"] { th scope="col" { (name) } } } }
            tbody { @for (captured, email) in entries { (row(app, captured, *email, now)) } }
        }
    }
}

fn row(app: &App, captured: &Captured, email: Option<&EmailRecord>, now: Timestamp) -> Markup {
    let summary = email.map(|email| &email.summary);
    html! {
        tr data-key={ (captured.email_id) "-" (captured.captured_at) } {
            td class="subject" {
                a href={ "/admin/inbox/" (captured.email_id) } {
                    (subject_or(summary.map(|summary| summary.subject.as_str())))
                }
            }
            td data-label="From" { (summary.map_or(captured.from.as_str(), |summary| summary.from.as_str())) }
            td data-label="To" { (captured.recipients.join(", ")) }
            td data-label="Captured" { (moment(captured.captured_at, now)) }
            td {
                @match email {
                    Some(email) => (status(email, app.operator.max_attempts(email), now)),
                    None => span class="faint" { "removed" }
                }
            }
        }
    }
}

/// A captured email that the visitor may see.
async fn find(app: &App, visitor: &Visitor, Id(id): Id) -> Result<Captured, Problem> {
    let none = || Problem::new(Kind::NotFound, "No email with this id was captured.");
    if let Some(owner) = visitor.owner() {
        let email = app.operator.find(id, Some(owner)).await?;
        email.ok_or_else(none)?;
    }
    app.operator.find_capture(id).await?.ok_or_else(none)
}

/// One captured email.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    id: Id,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let captured = find(&app, &visitor, id).await?;
    let base = format!("/admin/inbox/{}", captured.email_id);
    let parsed = mail_parser::MessageParser::default().parse(&captured.content[..]);
    let subject = subject_or(parsed.as_ref().and_then(mail_parser::Message::subject));
    let content = html! {
        h1 { (subject) }
        p class="faint" {
            "Captured " time datetime=(captured.captured_at) { (full(captured.captured_at)) }
            " · from " (captured.from) " · to " (captured.recipients.join(", "))
        }
        p { a href={ "/admin/emails/" (captured.email_id) } { "What became of it" } }
        (content::tabs(&base, &captured.content, parameters.view()))
    };
    frame::show(&app, &visitor, Section::Inbox, subject, &content).await
}

/// The HTML of a captured email, for the frame without rights.
pub(super) async fn html(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    id: Id,
) -> Result<Response, Problem> {
    content::framed(&find(&app, &visitor, id).await?.content)
}

/// The source of a captured email.
pub(super) async fn source(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    id: Id,
) -> Result<Response, Problem> {
    Ok(content::plain(find(&app, &visitor, id).await?.content))
}
