//! The dev inbox: mail that was captured instead of sent.
//!
//! Whatever is in an email is shown as text, except its HTML, which gets a frame without
//! rights.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_parser::{Message, MessageParser, MimeHeaders as _};
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::EmailRecord;
use posthaste_core::port::Captured;

use crate::access::{Allowed, Read};
use crate::app::App;
use crate::id::Id;
use crate::page::{self, Guard};
use crate::problem::{Kind, Problem};

/// How many emails the list shows.
const MOST: usize = 100;
/// How much of the source is shown on the page.
const LONGEST_SOURCE: usize = 256 * 1024;
/// How large HTML may become by the images that are put into it.
const LARGEST_HTML: usize = 32 * 1024 * 1024;

/// The list of captured mail.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
) -> Result<Response, Problem> {
    let mut entries = Vec::new();
    for captured in app.operator.captures(MOST).await? {
        let email = app.operator.find(captured.email_id, caller.owner()).await?;
        if email.is_some() || caller.owner().is_none() {
            entries.push((captured, email));
        }
    }
    let content = html! {
        h1 { "Inbox" }
        p class="faint" {
            "Mail that was captured instead of sent: the newest " (MOST) ", newest first. Reload to see what is new."
        }
        @if entries.is_empty() && app.transport.name() != "capture" {
            p {
                "Mail goes out by " (app.transport.name()) ", so nothing is captured here. "
                code { "posthaste emails list" } " shows what became of each."
            }
        } @else if entries.is_empty() {
            p { "Nothing was captured yet. Send an email with " code { "POST /v1/emails" } "." }
        } @else {
            div class="scroll" { (table(&entries)) }
        }
    };
    Ok(page::respond(page::layout("Inbox", &content)))
}

fn table(entries: &[(Captured, Option<EmailRecord>)]) -> Markup {
    html! {
        table class="list" {
            thead { tr { th { "Time" } th { "From" } th { "To" } th { "Subject" } th { "Status" } } }
            tbody {
                @for (captured, email) in entries {
                    @let summary = email.as_ref().map(|email| &email.summary);
                    tr {
                        td { (moment(captured.captured_at)) }
                        td { (summary.map_or(captured.from.as_str(), |summary| summary.from.as_str())) }
                        td { (captured.recipients.join(", ")) }
                        td {
                            a href={ "/admin/inbox/" (captured.email_id) } {
                                (subject_or(summary.map(|summary| summary.subject.as_str())))
                            }
                        }
                        td { (email.as_ref().map_or("removed", |email| email.state.status.as_str())) }
                    }
                }
            }
        }
    }
}

fn moment(at: Timestamp) -> Markup {
    let shown = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at) { (shown) } }
}

fn subject_or(subject: Option<&str>) -> &str {
    subject
        .filter(|subject| !subject.trim().is_empty())
        .unwrap_or("(no subject)")
}

/// A captured email that the caller may see.
async fn find(app: &App, caller: &Allowed<Read>, Id(id): Id) -> Result<Captured, Problem> {
    let none = || Problem::new(Kind::NotFound, "No email with this id was captured.");
    if let Some(owner) = caller.owner() {
        let email = app.operator.find(id, Some(owner)).await?;
        email.ok_or_else(none)?;
    }
    app.operator.find_capture(id).await?.ok_or_else(none)
}

/// One captured email.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    id: Id,
) -> Result<Response, Problem> {
    let captured = find(&app, &caller, id).await?;
    let message = MessageParser::default().parse(&captured.content[..]);
    let subject = subject_or(message.as_ref().and_then(Message::subject));
    let content = html! {
        h1 { (subject) }
        p class="faint" {
            "Captured " (moment(captured.captured_at)) " · from " (captured.from)
            " · to " (captured.recipients.join(", "))
        }
        @if let Some(message) = &message { (parts(message, &captured)) }
        details {
            summary { "Source" }
            p { a href={ "/admin/inbox/" (captured.email_id) "/source" } { "The whole source" } }
            pre { (source_of(&captured)) }
        }
    };
    Ok(page::respond(page::layout(subject, &content)))
}

fn parts(message: &Message<'_>, captured: &Captured) -> Markup {
    html! {
        @if html_of(message).is_some() {
            h2 { "HTML" }
            iframe sandbox="" title="The HTML of the email"
                src={ "/admin/inbox/" (captured.email_id) "/html" } {}
        }
        @if let Some(text) = text_of(message) { h2 { "Text" } pre { (text) } }
        @if message.attachment_count() > 0 {
            h2 { "Attachments" }
            ul {
                @for file in message.attachments() {
                    li {
                        (file.attachment_name().unwrap_or("(no name)"))
                        span class="faint" { " " (media_type(file)) ", " (file.contents().len()) " octets" }
                    }
                }
            }
        }
        details {
            summary { "Headers" }
            div class="scroll" {
                table { tbody {
                    @for (name, value) in message.headers_raw() {
                        tr { th { (name) } td { (value.trim()) } }
                    }
                } }
            }
        }
    }
}

fn media_type(part: &mail_parser::MessagePart<'_>) -> String {
    part.content_type().map_or_else(
        || "text/plain".to_owned(),
        |kind| format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("*")),
    )
}

/// The HTML part itself, not one made of the text.
fn html_of<'a>(message: &'a Message<'_>) -> Option<&'a str> {
    message
        .html_bodies()
        .filter(|part| part.is_text_html())
        .find_map(mail_parser::MessagePart::text_contents)
}

/// The text part itself, not one made of the HTML.
fn text_of<'a>(message: &'a Message<'_>) -> Option<&'a str> {
    message
        .text_bodies()
        .filter(|part| part.is_text() && !part.is_text_html())
        .find_map(mail_parser::MessagePart::text_contents)
}

fn source_of(captured: &Captured) -> String {
    let shown = captured.content.get(..LONGEST_SOURCE);
    let mut text = String::from_utf8_lossy(shown.unwrap_or(&captured.content)).into_owned();
    if shown.is_some_and(|shown| shown.len() < captured.content.len()) {
        text.push_str("\n…");
    }
    text
}

/// The HTML of a captured email, for the frame without rights.
pub(crate) async fn html(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    id: Id,
) -> Result<Response, Problem> {
    let captured = find(&app, &caller, id).await?;
    let message = MessageParser::default().parse(&captured.content[..]);
    let html = message.as_ref().and_then(|message| {
        let html = html_of(message)?;
        Some(with_images(html, message))
    });
    let none = || Problem::new(Kind::NotFound, "This email has no HTML.");
    Ok(page::document(
        Guard::Email,
        "text/html; charset=utf-8",
        html.ok_or_else(none)?,
    ))
}

/// Puts the images that came along in the place of their `cid:` references, as long as that
/// does not make too much of it.
fn with_images(html: &str, message: &Message<'_>) -> String {
    let mut html = html.to_owned();
    for part in &message.parts {
        let Some(reference) = part.content_id().map(|id| format!("cid:{id}")) else {
            continue;
        };
        let kind = media_type(part);
        let is_image = kind.strip_prefix("image/").is_some_and(|subtype| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"+.-".contains(&b);
            subtype.bytes().all(plain)
        });
        let added = html.matches(&reference).count() * part.contents().len() * 4 / 3;
        if is_image && added > 0 && html.len() + added <= LARGEST_HTML {
            let data = format!("data:{kind};base64,{}", BASE64.encode(part.contents()));
            html = html.replace(&reference, &data);
        }
    }
    html
}

/// The source of a captured email.
pub(crate) async fn source(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    id: Id,
) -> Result<Response, Problem> {
    let captured = find(&app, &caller, id).await?;
    Ok(page::document(
        Guard::Page,
        "text/plain; charset=utf-8",
        captured.content,
    ))
}
