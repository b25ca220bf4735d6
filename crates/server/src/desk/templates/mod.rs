//! Templates: the list, and the editor with its preview.

mod draft;
mod editor;
mod timeline;

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::PolicyChoice;
use posthaste_core::port::{EmailFilter, TemplateSaved};
use posthaste_core::template::Template;
use posthaste_engine::intake::{EmailRequest, PolicyRequest, Refused, Submitter, Taken};
use posthaste_engine::template::NotSaved;
use posthaste_engine::{FieldError, Policies};

use self::draft::Draft;
use self::editor::Editor;
use super::frame::{self, Section};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::id::Id;
use crate::page::{counted, empty, moment};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::{TemplateName, no_such_template};

/// The list of templates.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let templates = app.intake.templates();
    let all = templates.list().await?;
    let now = app.operator.now();
    let mut rows = Vec::with_capacity(all.len());
    for template in &all {
        let used = last_used(&app, &visitor, &template.name).await?;
        rows.push(row(template, templates.policies(), used, now));
    }
    let content = html! {
        div class="head" {
            div {
                h1 { "Templates" }
                p class="faint" { "What emails are made from. Programs send by name and give the variables." }
            }
            @if visitor.may_act() { a class="button first" href="/admin/templates/new" { "New template" } }
        }
        @if rows.is_empty() {
            (empty(false, "No template is here yet", &html! {
                "Make one here, or with " code { "posthaste templates push" } "."
            }))
        } @else {
            table class="list" {
                caption class="hidden" { "Templates by name" }
                thead { tr {
                    @for name in ["Name", "Subject", "Version", "Retries", "Last used"] { th scope="col" { (name) } }
                } }
                tbody { @for row in &rows { (row) } }
            }
        }
    };
    frame::show(&app, &visitor, Section::Templates, "Templates", &content).await
}

fn row(
    template: &Template,
    policies: &Policies,
    used: Option<Timestamp>,
    now: Timestamp,
) -> Markup {
    let content = &template.content;
    let name = match &content.policy {
        PolicyChoice::Named(name) => name.as_str(),
        PolicyChoice::Own(_) => "own schedule",
    };
    let attempts = policies.of(&content.policy).max_attempts;
    html! {
        tr {
            td class="subject" {
                a href={ "/admin/templates/" (template.name) } { (template.name) }
                @if !content.description.is_empty() { div class="faint small" { (content.description) } }
            }
            td data-label="Subject" { (content.subject) }
            td data-label="Version" { (template.version) span class="faint" { ", " (moment(template.saved_at, now)) } }
            td data-label="Retries" { (name) span class="faint" { ", " (counted(attempts.into(), "attempt", "attempts")) } }
            td data-label="Last used" { @match used { Some(at) => (moment(at, now)), None => span class="faint" { "never" } } }
        }
    }
}

/// When the newest email was made from a template.
async fn last_used(app: &App, visitor: &Visitor, name: &str) -> Result<Option<Timestamp>, Problem> {
    let filter = EmailFilter {
        owner: visitor.owner().map(str::to_owned),
        template: Some(name.to_owned()),
        limit: 1,
        ..EmailFilter::default()
    };
    let page = app.operator.list(filter).await?;
    Ok(page.emails.first().map(|email| email.created_at))
}

/// The editor for a template that is not there yet.
pub(super) async fn new(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    Opened::blank(Draft::blank()).show(&app, &visitor).await
}

/// The editor for a template, in its newest version or another.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Id(TemplateName(name)): Id<TemplateName>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let templates = app.intake.templates();
    let version = parameters.version()?;
    let newest = templates.find(&name, None).await?;
    let newest = newest.ok_or_else(no_such_template)?.version;
    let shown = templates.find(&name, version).await?;
    let shown = shown.ok_or_else(no_such_template)?;
    let opened = Opened {
        version: shown.version,
        ..Opened::blank(Draft::of(&shown, newest))
    };
    opened.show(&app, &visitor).await
}

/// The editor with what was typed, and what that comes to. Nothing is saved; but what someone wrote is
/// run, so it is for those who may write.
pub(super) async fn preview(
    State(app): State<Arc<App>>,
    form: Submitted,
) -> Result<Response, Problem> {
    Opened::of(&form.fields).show(&app, &form.visitor).await
}

/// Saves what was typed.
pub(super) async fn save(
    State(app): State<Arc<App>>,
    form: Submitted,
) -> Result<Response, Problem> {
    let mut opened = Opened::of(&form.fields);
    let (content, unread) = opened.draft.content();
    let templates = app.intake.templates();
    let name = opened.draft.name.clone();
    if !unread.is_empty() {
        opened.errors = unread;
        let checked = templates.check(&name, &content);
        opened.errors.extend(checked);
        return opened.refuse(&app, &form.visitor).await;
    }
    let actor = form.visitor.caller.actor();
    let based_on = Some(opened.draft.based_on);
    match templates.save(&name, content, based_on, &actor).await {
        Ok(TemplateSaved::Saved(template)) => {
            let notice = format!("Saved as version {}.", template.version);
            Ok(frame::done(&format!("/admin/templates/{name}"), &notice))
        }
        Ok(TemplateSaved::Unchanged(template)) => {
            let notice = format!(
                "Nothing changed: it says so already, in version {}.",
                template.version
            );
            Ok(frame::done(&format!("/admin/templates/{name}"), &notice))
        }
        Ok(TemplateSaved::Conflict(newest)) => {
            opened.notice = Some(conflict(&name, newest));
            opened.draft.based_on = newest;
            opened.refuse(&app, &form.visitor).await
        }
        Err(NotSaved::Invalid(errors)) => {
            opened.errors = errors;
            opened.refuse(&app, &form.visitor).await
        }
        Err(NotSaved::Store(error)) => Err(error.into()),
    }
}

fn conflict(name: &str, newest: u32) -> Markup {
    html! {
        p class="error" role="alert" {
            @if newest == 0 {
                "It was not saved: someone deleted this template meanwhile. Save again to make it anew."
            } @else {
                "It was not saved: there is a "
                a href={ "/admin/templates/" (name) } target="_blank" { "version " (newest) }
                " by now that you have not seen. Look at it, then save again to put yours on top."
            }
        }
    }
}

/// Sends what was typed to someone.
pub(super) async fn test(
    State(app): State<Arc<App>>,
    form: Submitted,
) -> Result<Response, Problem> {
    let mut opened = Opened::of(&form.fields);
    let (content, unread) = opened.draft.content();
    let rendered = match app.intake.templates().render(&content, &content.sample) {
        Ok(rendered) if unread.is_empty() => rendered,
        Ok(_) => return opened.not_sent(unread, &app, &form.visitor).await,
        Err(errors) => return opened.not_sent(errors, &app, &form.visitor).await,
    };
    let request = EmailRequest {
        from: content.from.unwrap_or_default(),
        to: vec![opened.test_to.clone()],
        subject: rendered.subject,
        html: rendered.html,
        text: rendered.text,
        retry_policy: Some(match content.policy {
            PolicyChoice::Named(name) => PolicyRequest::Named(name),
            PolicyChoice::Own(own) => PolicyRequest::Own(own),
        }),
        priority: Some(content.priority.to_string()),
        route: content.route,
        ..EmailRequest::default()
    };
    let caller = &form.visitor.caller;
    let submitter = Submitter {
        owner: caller.owner.clone(),
        from_addresses: caller.from_addresses.clone(),
    };
    let taken = app.intake.take(&submitter, vec![request]).await.pop();
    match taken.ok_or_else(Problem::internal)? {
        Ok(Taken::Accepted { id, .. } | Taken::Replayed { id, .. }) => {
            opened.notice = Some(html! {
                p class="notice" role="status" {
                    "A test is on its way to " (opened.test_to) ": "
                    a href={ "/admin/emails/" (id) } { "see what becomes of it" } "."
                }
            });
            opened.show(&app, &form.visitor).await
        }
        Err(Refused::Invalid(errors)) => opened.not_sent(errors, &app, &form.visitor).await,
        Err(refused) => Err(refused.into()),
    }
}

/// Deletes a template.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Id(TemplateName(name)): Id<TemplateName>,
    form: Submitted,
) -> Result<Response, Problem> {
    let actor = form.visitor.caller.actor();
    if !app.intake.templates().delete(&name, &actor).await? {
        return Err(no_such_template());
    }
    Ok(frame::done(
        "/admin/templates",
        &format!("Template {name} is deleted."),
    ))
}

/// An editor that is open.
struct Opened {
    draft: Draft,
    version: u32,
    errors: Vec<FieldError>,
    notice: Option<Markup>,
    test_to: String,
}

impl Opened {
    fn blank(draft: Draft) -> Self {
        Self {
            draft,
            version: 0,
            errors: Vec::new(),
            notice: None,
            test_to: String::new(),
        }
    }

    /// With what was typed.
    fn of(fields: &crate::access::Fields) -> Self {
        Self {
            version: fields.text("version").parse().unwrap_or(0),
            test_to: fields.text("test_to").trim().to_owned(),
            ..Self::blank(Draft::read(fields))
        }
    }

    async fn show(self, app: &Arc<App>, visitor: &Visitor) -> Result<Response, Problem> {
        let templates = app.intake.templates();
        let versions = match self.draft.based_on {
            0 => Vec::new(),
            _ => templates.versions(&self.draft.name).await?,
        };
        let editor = Editor {
            visitor,
            templates,
            now: app.operator.now(),
            draft: self.draft,
            version: self.version,
            versions,
            errors: self.errors,
            notice: self.notice,
            test_to: self.test_to,
        };
        let title = match editor.draft.based_on {
            0 => "New template",
            _ => editor.draft.name.as_str(),
        };
        let content = editor.markup();
        let shown = frame::show(app, visitor, Section::Templates, title, &content).await;
        shown.map(with_styled_preview)
    }

    /// The same, as an answer to what could not be done.
    async fn refuse(self, app: &Arc<App>, visitor: &Visitor) -> Result<Response, Problem> {
        let mut response = self.show(app, visitor).await?;
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        Ok(response)
    }

    /// Says why a test was not sent.
    async fn not_sent(
        mut self,
        errors: Vec<FieldError>,
        app: &Arc<App>,
        visitor: &Visitor,
    ) -> Result<Response, Problem> {
        self.notice = Some(html! {
            div class="error" role="alert" {
                strong { "The test was not sent." }
                ul { @for error in &errors { li { code { (error.field) } " " (error.message) } } }
            }
        });
        self.refuse(app, visitor).await
    }
}

/// The preview stands inside of the page and is bound by its policy: emails have their style in
/// them, so that must be let through. Scripts and loads stay forbidden, and the frame has no rights.
fn with_styled_preview(mut response: Response) -> Response {
    let policy = response.headers().get(CONTENT_SECURITY_POLICY);
    let policy = policy.and_then(|policy| policy.to_str().ok());
    let styled = policy
        .map(|policy| policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"))
        .and_then(|policy| HeaderValue::from_str(&policy).ok());
    if let Some(styled) = styled {
        response
            .headers_mut()
            .insert(CONTENT_SECURITY_POLICY, styled);
    }
    response
}
