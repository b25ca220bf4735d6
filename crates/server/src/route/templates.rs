//! Templates: reading, saving and trying them out.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use posthaste_core::port::TemplateSaved;
use posthaste_core::template::{Template, TemplateContent};
use posthaste_engine::Templates;
use posthaste_engine::template::NotSaved;

use crate::access::{Admin, Allowed, Read};
use crate::app::App;
use crate::body::{
    TemplateContentBody, TemplateDetail, TemplateList, TemplatePreview, TemplatePreviewBody,
    TemplateVersions,
};
use crate::id::{Id, Identity};
use crate::json::{self, Json, JsonBytes, Object};
use crate::openapi::{AccessProblems, BodyProblems, ListProblems, MessageProblems, Problems};
use crate::problem::{Kind, Problem};
use crate::query::Parameters;

/// The name of a template as it stands in a path; whether it may be one is for the engine to say.
pub(crate) struct TemplateName(pub(crate) String);

impl std::str::FromStr for TemplateName {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl Identity for TemplateName {
    fn not_found() -> Problem {
        no_such_template()
    }
}

/// There is no template of this name.
pub(crate) fn no_such_template() -> Problem {
    Problem::new(Kind::NotFound, "There is no template with this name.")
}

/// List templates
///
/// The newest version of each, by name.
#[utoipa::path(
    get,
    path = "/v1/templates",
    tag = "templates",
    operation_id = "listTemplates",
    responses((status = 200, description = "The templates", body = TemplateList), AccessProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
) -> Result<Json<TemplateList>, Problem> {
    let templates = app.intake.templates().list().await?;
    Ok(json::ok(TemplateList::of(&templates)))
}

/// Show a template
///
/// With the variables that were found in it.
#[utoipa::path(
    get,
    path = "/v1/templates/{name}",
    tag = "templates",
    operation_id = "showTemplate",
    params(
        ("name" = String, Path, description = "Which template"),
        ("version" = Option<u32>, Query, description = "Which version; the newest if left out"),
    ),
    responses(
        (status = 200, description = "The template", body = TemplateDetail,
            headers(("ETag" = String, description = "The version, for `If-Match`"))),
        Problems,
        ListProblems
    ),
    security(("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
    Id(TemplateName(name)): Id<TemplateName>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let templates = app.intake.templates();
    let version = parameters.version()?;
    let found = templates.find(&name, version).await?;
    let template = found.ok_or_else(no_such_template)?;
    Ok(answer(StatusCode::OK, template, templates))
}

/// Save a template
///
/// Each change makes a new version; older ones are kept. What is left out is empty.
#[utoipa::path(
    put,
    path = "/v1/templates/{name}",
    tag = "templates",
    operation_id = "saveTemplate",
    params(
        ("name" = String, Path, description = "Which template: lowercase letters, digits, `.`, `-` and `_`"),
        ("If-Match" = Option<String>, Header, description = "The same as `based_on`, in quotes"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is none yet"),
    ),
    request_body = TemplateContentBody,
    responses(
        (status = 200, description = "It says so now", body = TemplateDetail),
        (status = 201, description = "It is new", body = TemplateDetail),
        (status = 409, description = "Someone else saved it meanwhile", body = Problem, content_type = "application/problem+json"),
        BodyProblems
    ),
    security(("key" = ["admin"]))
)]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(TemplateName(name)): Id<TemplateName>,
    body: JsonBytes,
) -> Result<Response, Problem> {
    let Object(mut given): Object<TemplateContentBody> = body.parse()?;
    agree_on_version(&body.headers, given.based_on_mut())?;
    let based_on = *given.based_on_mut();
    let content = given
        .into_content(TemplateContent::default())
        .map_err(Problem::invalid_fields)?;
    let templates = app.intake.templates();
    let is_new = templates.find(&name, None).await?.is_none();
    let saved = templates
        .save(&name, content, based_on, &caller.caller.actor())
        .await?;
    match saved {
        TemplateSaved::Saved(template) if is_new => {
            Ok(answer(StatusCode::CREATED, template, templates))
        }
        TemplateSaved::Saved(template) | TemplateSaved::Unchanged(template) => {
            Ok(answer(StatusCode::OK, template, templates))
        }
        TemplateSaved::Conflict(newest) => Err(conflict(newest)),
    }
}

fn conflict(newest: u32) -> Problem {
    let detail = match newest {
        0 => {
            "There is no such template any more, or not yet. Save it with `based_on` 0 to make it."
                .to_owned()
        }
        newest => format!(
            "Someone else saved this template meanwhile: it is version {newest} now. Read it again, \
             and save with `based_on` {newest}."
        ),
    };
    Problem::new(Kind::Conflict, detail)
}

/// Delete a template
///
/// Emails that were made from it stay as they are. Saved again, it goes on with the next version.
#[utoipa::path(
    delete,
    path = "/v1/templates/{name}",
    tag = "templates",
    operation_id = "deleteTemplate",
    params(("name" = String, Path, description = "Which template")),
    responses((status = 204, description = "It is deleted"), Problems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(TemplateName(name)): Id<TemplateName>,
) -> Result<StatusCode, Problem> {
    let actor = caller.caller.actor();
    if app.intake.templates().delete(&name, &actor).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_such_template())
    }
}

/// List the versions of a template
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/templates/{name}/versions",
    tag = "templates",
    operation_id = "listTemplateVersions",
    params(("name" = String, Path, description = "Which template")),
    responses((status = 200, description = "Its versions", body = TemplateVersions), Problems),
    security(("key" = ["read"]))
)]
pub(crate) async fn versions(
    State(app): State<Arc<App>>,
    _caller: Allowed<Read>,
    Id(TemplateName(name)): Id<TemplateName>,
) -> Result<Json<TemplateVersions>, Problem> {
    let versions = app.intake.templates().versions(&name).await?;
    if versions.is_empty() {
        return Err(no_such_template());
    }
    Ok(json::ok(TemplateVersions::of(versions)))
}

/// Try a template out
///
/// Nothing is saved and nothing is sent. With a subject and a body it need not be saved before; to run
/// what is not saved, a key needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/v1/templates/{name}/preview",
    tag = "templates",
    operation_id = "previewTemplate",
    params(("name" = String, Path, description = "Which template")),
    request_body = TemplatePreviewBody,
    responses(
        (status = 200, description = "What it comes to", body = TemplatePreview),
        MessageProblems,
        BodyProblems
    ),
    security(("key" = ["read"]))
)]
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    Id(TemplateName(name)): Id<TemplateName>,
    body: JsonBytes,
) -> Result<Json<TemplatePreview>, Problem> {
    let Object(wanted): Object<TemplatePreviewBody> = body.parse()?;
    if wanted.is_written() && !caller.caller.may("admin") {
        let message = "To try out what is not saved needs an API key with the scope `admin`. Leave out \
                       subject, html and text to try out what is.";
        return Err(Problem::new(Kind::Forbidden, message));
    }
    let templates = app.intake.templates();
    let before = match templates.find(&name, None).await? {
        Some(template) => template.content,
        None if wanted.stands_alone() => TemplateContent::default(),
        None => return Err(no_such_template()),
    };
    let (content, values) = wanted.onto(before);
    let policies = templates.policies();
    let unknown = content
        .route
        .as_deref()
        .and_then(|name| policies.unknown_route(name));
    if let Some(message) = unknown {
        return Err(Problem::invalid("route", message));
    }
    let rendered = templates
        .render(&content, &values)
        .map_err(Problem::invalid_fields)?;
    let variables = templates.variables(&content);
    Ok(json::ok(TemplatePreview::of(rendered, &content, variables)))
}

impl From<NotSaved> for Problem {
    fn from(error: NotSaved) -> Self {
        match error {
            NotSaved::Invalid(errors) => Self::invalid_fields(errors),
            NotSaved::Store(error) => error.into(),
        }
    }
}

fn answer(status: StatusCode, template: Template, templates: &Templates) -> Response {
    let variables = templates.variables(&template.content);
    let tag = HeaderValue::from_str(&format!("\"{}\"", template.version));
    let mut response = Json(status, TemplateDetail::of(template, variables)).into_response();
    if let Ok(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The version that was edited may stand in a header or in the body; where it stands in both, it
/// is the same.
fn agree_on_version(headers: &HeaderMap, based_on: &mut Option<u32>) -> Result<(), Problem> {
    let given = match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
        (None, None) => return Ok(()),
        (Some(tag), None) => tag
            .to_str()
            .ok()
            .and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok())
            .ok_or_else(|| {
                Problem::invalid("If-Match", "is not a version in quotes, as in \"3\"")
            })?,
        (None, Some(tag)) if tag == "*" => 0,
        (_, Some(_)) => {
            return Err(Problem::invalid(
                "If-None-Match",
                "may only be * and stand alone",
            ));
        }
    };
    if based_on.is_some_and(|based_on| based_on != given) {
        let message = "differs from the version in the header; give one of them, or the same twice";
        return Err(Problem::invalid("based_on", message));
    }
    *based_on = Some(given);
    Ok(())
}
