//! The description of the API, for programs and for people.

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use maud::{Markup, html};
use serde_json::Value;

use crate::app::App;
use crate::page::{self, Guard};
use crate::problem::Kind;

/// The description, made when someone asks for it first: most processes are never asked.
pub(crate) struct Docs {
    /// The version that it is of.
    version: &'static str,
    openapi: OnceLock<Bytes>,
    page: OnceLock<Bytes>,
}

impl Docs {
    pub(crate) const fn of(version: &'static str) -> Self {
        Self {
            version,
            openapi: OnceLock::new(),
            page: OnceLock::new(),
        }
    }

    fn description(&self) -> utoipa::openapi::OpenApi {
        let mut openapi = super::described().into_openapi();
        self.version.clone_into(&mut openapi.info.version);
        openapi
    }
}

/// The OpenAPI document.
pub(crate) async fn openapi(State(app): State<Arc<App>>) -> impl IntoResponse {
    let docs = &app.docs;
    let document = docs
        .openapi
        .get_or_init(|| docs.description().to_json().unwrap_or_default().into());
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, document.clone())
}

/// The page.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Response {
    let docs = &app.docs;
    let page = docs.page.get_or_init(|| {
        let document = serde_json::to_value(docs.description()).unwrap_or_default();
        let page = page::layout("API", &content(&document), true);
        page.into_string().into()
    });
    page::document(Guard::Page, "text/html; charset=utf-8", page.clone())
}

fn content(document: &Value) -> Markup {
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    let schemas = document["components"]["schemas"].as_object();
    html! {
        h1 { (text(&document["info"]["title"])) " " (text(&document["info"]["version"])) }
        p { (prose(text(&document["info"]["description"]))) }
        p { a href="/openapi.json" { "The OpenAPI 3.1 document" } }
        h2 { "Access" }
        p { "Send an API key as " code { "Authorization: Bearer <key>" } ". "
            (prose(text(&document["components"]["securitySchemes"]["key"]["description"]))) }
        @for tag in tags {
            h2 { (text(&tag["name"])) }
            p class="faint" { (prose(text(&tag["description"]))) }
            @for (path, method, operation) in operations(document) {
                @if operation["tags"][0] == tag["name"] { (operation_of(path, method, operation)) }
            }
        }
        h2 { "Shapes" }
        @for (name, schema) in schemas.into_iter().flatten() { (schema_of(name, schema)) }
        h2 id="problems" { "Problems" }
        p { "Errors have the shape of RFC 9457, as " code { "application/problem+json" } "." }
        table { tbody {
            @for kind in Kind::ALL {
                @let (status, name, title) = kind.parts();
                tr id=(name.trim_start_matches("/docs#")) {
                    th { (status.as_u16()) } td { (title) } td { code { (name) } }
                }
            }
        } }
    }
}

/// Every operation with its path and method.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object();
    paths.into_iter().flatten().flat_map(|(path, item)| {
        let operations = item.as_object();
        operations
            .into_iter()
            .flatten()
            .map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

fn operation_of(path: &str, method: &str, operation: &Value) -> Markup {
    let parameters = operation["parameters"].as_array();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let responses = operation["responses"].as_object().into_iter().flatten();
    let mut problems = Vec::new();
    let mut answers = Vec::new();
    for (status, response) in responses {
        let content = response["content"].as_object();
        match content.and_then(|content| content.iter().next()) {
            Some((kind, _)) if kind == "application/problem+json" => problems.push(status.as_str()),
            Some((_, content)) => answers.push((status, response, &content["schema"])),
            None => answers.push((status, response, &Value::Null)),
        }
    }
    let scopes = operation["security"].as_array().into_iter().flatten();
    let scopes: Vec<_> = scopes
        .filter_map(|entry| entry["key"][0].as_str())
        .collect();
    html! {
        h3 { span class="method" { (method.to_uppercase()) } " " code { (path) } }
        p {
            (text(&operation["summary"])) ". " (prose(text(&operation["description"])))
            @if !scopes.is_empty() { span class="faint" { " Scope: " (scopes.join(", ")) "." } }
        }
        div class="scroll" { table { tbody {
            @for parameter in parameters.into_iter().flatten() {
                tr {
                    th { code { (text(&parameter["name"])) } }
                    td { (text(&parameter["in"])) ", " (kind_of(&parameter["schema"])) }
                    td { (prose(text(&parameter["description"]))) }
                }
            }
            @if !body.is_null() { tr { th { "Body" } td { (kind_of(body)) } td {} } }
            @for (status, response, schema) in &answers {
                tr { th { (status) } td { (kind_of(schema)) } td { (prose(text(&response["description"]))) } }
            }
            @if !problems.is_empty() {
                tr {
                    th { (problems.join(" ")) }
                    td { a href="#shape-Problem" { "Problem" } }
                    td { a href="#problems" { "What went wrong" } }
                }
            }
        } } }
    }
}

fn schema_of(name: &str, schema: &Value) -> Markup {
    let required = schema["required"].as_array();
    let is_required =
        |field: &str| required.is_some_and(|names| names.iter().any(|name| name == field));
    html! {
        h3 id={ "shape-" (name) } { code { (name) } }
        p { (prose(text(&schema["description"]))) }
        @if schema["properties"].is_null() { p { (kind_of(schema)) } }
        div class="scroll" { table { tbody {
            @for (field, kind) in schema["properties"].as_object().into_iter().flatten() {
                tr {
                    th { code { (field) } @if is_required(field) { " *" } }
                    td { (kind_of(kind)) }
                    td { (prose(description_of(kind))) }
                }
            }
        } } }
    }
}

/// Text in which what stands between backticks is code.
fn prose(text: &str) -> Markup {
    html! {
        @for (at, piece) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

/// What a field is for; of one that may be null, it stands a level below.
fn description_of(schema: &Value) -> &str {
    let own = text(&schema["description"]);
    if own.is_empty() {
        text(&schema["oneOf"][0]["description"])
    } else {
        own
    }
}

/// A schema in a few words.
fn kind_of(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        return html! { a href={ "#shape-" (name) } { (name) } };
    }
    let choices = ["oneOf", "anyOf", "allOf"]
        .iter()
        .find_map(|key| schema[*key].as_array());
    if let Some(choices) = choices {
        return html! {
            @for (index, choice) in choices.iter().enumerate() {
                @if index > 0 { " or " }
                (kind_of(choice))
            }
        };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    html! {
        (kinds.join(" or "))
        @if let Some(format) = schema["format"].as_str() { " (" (format) ")" }
        @if !schema["items"].is_null() { " of " (kind_of(&schema["items"])) }
        @if schema["additionalProperties"].is_object() { " of " (kind_of(&schema["additionalProperties"])) }
        @for field in schema["properties"].as_object().into_iter().flatten() {
            " { " (field.0) ": " (kind_of(field.1)) " }"
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
