//! What is in an email, shown so that it can do nothing: as text, or as HTML in a frame without
//! rights.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_DISPOSITION;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _};
use maud::{Markup, html};

use crate::access::Visitor;
use crate::app::App;
use crate::id::Id;
use crate::page::{self, Guard};
use crate::problem::{Kind, Problem};

/// How much of the source is shown on the page.
const LONGEST_SOURCE: usize = 256 * 1024;
/// How large HTML may become by the images that are put into it.
const LARGEST_HTML: usize = 32 * 1024 * 1024;

/// The ways to look at an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Html,
    Text,
    Headers,
    Source,
}

impl View {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Html, "html", "HTML"),
        (Self::Text, "text", "Text"),
        (Self::Headers, "headers", "Headers"),
        (Self::Source, "source", "Source"),
    ];

    fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        found.map(|(view, ..)| *view)
    }
}

/// The content of an email with its tabs. `base`: the address of its page; `chosen`: the tab that
/// the address of the page names.
pub(super) fn tabs(base: &str, content: &[u8], chosen: Option<&str>) -> Markup {
    let message = MessageParser::default().parse(content);
    let Some(message) = message else {
        return html! { pre { (source_of(content)) } };
    };
    let has = |view| match view {
        View::Html => html_of(&message).is_some(),
        View::Text => text_of(&message).is_some(),
        View::Headers | View::Source => true,
    };
    let first = View::ALL
        .iter()
        .map(|(view, ..)| *view)
        .find(|view| has(*view));
    let view = chosen.and_then(View::named).filter(|view| has(*view));
    let view = view.or(first).unwrap_or(View::Source);
    html! {
        nav class="tabs" aria-label="Ways to look at the content" id="content" {
            @for (one, name, title) in View::ALL {
                @if has(one) {
                    a href={ (base) "?view=" (name) "#content" } aria-current=[(one == view).then_some("true")] { (title) }
                }
            }
        }
        @match view {
            View::Html => {
                iframe sandbox="" title="The HTML of the email" src={ (base) "/html" } {}
                p class="faint small" { "Shown without scripts, and without loading anything from elsewhere." }
            }
            View::Text => pre { (text_of(&message).unwrap_or_default()) }
            View::Headers => (headers(&message)),
            View::Source => {
                p { a href={ (base) "/source" } { "The whole source" } }
                pre { (source_of(content)) }
            }
        }
        (attachments(&message))
    }
}

fn headers(message: &Message<'_>) -> Markup {
    html! {
        div class="scroll" {
            table {
                tbody {
                    @for (name, value) in message.headers_raw() {
                        tr { th scope="row" { (name) } td { (value.trim()) } }
                    }
                }
            }
        }
    }
}

fn attachments(message: &Message<'_>) -> Markup {
    html! {
        @if message.attachment_count() > 0 {
            h3 { "Attachments" }
            ul {
                @for file in message.attachments() {
                    li {
                        (file.attachment_name().unwrap_or("(no name)"))
                        span class="faint" { " " (media_type(file)) ", " (page::number(file.contents().len() as u64)) " octets" }
                    }
                }
            }
        }
    }
}

fn media_type(part: &MessagePart<'_>) -> String {
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
        .find_map(MessagePart::text_contents)
}

/// The text part itself, not one made of the HTML.
fn text_of<'a>(message: &'a Message<'_>) -> Option<&'a str> {
    message
        .text_bodies()
        .filter(|part| part.is_text() && !part.is_text_html())
        .find_map(MessagePart::text_contents)
}

fn source_of(content: &[u8]) -> String {
    let shown = content.get(..LONGEST_SOURCE);
    let mut text = String::from_utf8_lossy(shown.unwrap_or(content)).into_owned();
    if shown.is_some_and(|shown| shown.len() < content.len()) {
        text.push_str("\n…");
    }
    text
}

/// The HTML of an email, for the frame without rights.
pub(super) fn framed(content: &[u8]) -> Result<Response, Problem> {
    let message = MessageParser::default().parse(content);
    let html = message.as_ref().and_then(|message| {
        let html = html_of(message)?;
        Some(page::powerless(&with_images(html, message)))
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

/// The source of an email as text.
pub(super) fn plain(content: Bytes) -> Response {
    page::document(Guard::Page, "text/plain; charset=utf-8", content)
}

/// The content of an email that the visitor may see.
async fn find(app: &App, visitor: &Visitor, Id(id): Id) -> Result<Bytes, Problem> {
    let email = app.operator.find(id, visitor.owner()).await?;
    let email = email.ok_or_else(Problem::no_such_email)?;
    let gone = || {
        Problem::new(
            Kind::Gone,
            "The content of this email was erased; what became of it is still on its page.",
        )
    };
    if email.erased_at.is_some() {
        return Err(gone());
    }
    app.operator.content(id).await?.ok_or_else(gone)
}

/// The HTML of an email.
pub(super) async fn html(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    id: Id,
) -> Result<Response, Problem> {
    framed(&find(&app, &visitor, id).await?)
}

/// The source of an email.
pub(super) async fn source(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    id: Id,
) -> Result<Response, Problem> {
    Ok(plain(find(&app, &visitor, id).await?))
}

/// The email as a file.
pub(super) async fn download(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Id(id): Id,
) -> Result<Response, Problem> {
    let content = find(&app, &visitor, Id(id)).await?;
    let mut response = page::document(Guard::Email, "message/rfc822", content);
    let name = format!("attachment; filename=\"{id}.eml\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}
