//! Templates as callers write and read them.

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::TemplateVersion;
use posthaste_core::status::Priority;
use posthaste_core::template::{Template, TemplateContent};
use posthaste_engine::intake::{FieldError, PolicyRequest};
use posthaste_engine::template::Rendered;
use posthaste_engine::ways::DEFAULT_ROUTE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::retry_policy::PolicyBody;
use super::{Time, new_email};
use crate::json::Variables;

/// What a template is to say.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTemplate)]
pub(crate) struct TemplateContentBody {
    /// What it is for, in a line.
    #[schema(max_length = 200, example = "Sent when an order was placed")]
    description: Option<String>,
    /// The sender, where the request gives none.
    #[schema(example = "Shop <shop@example.org>")]
    from: Option<String>,
    /// The subject, with variables.
    #[schema(required, value_type = String, max_length = 1000, example = "Your order {{ number }}")]
    subject: Option<String>,
    /// The HTML body, with variables, which are escaped. Give text, html or both.
    #[schema(example = "<p>Hello {{ name }}</p>")]
    html: Option<String>,
    /// The text body, with variables.
    #[schema(example = "Hello {{ name }}")]
    text: Option<String>,
    /// Which emails go first, where the request does not say: `high`, `normal` (default) or `low`.
    priority: Option<String>,
    /// How its emails are retried, where the request does not say: the name of a retry policy
    /// (default `notification`), or one of its own with up to 3 attempts; 5 for high priority.
    #[schema(value_type = Option<new_email::PolicyChoice>)]
    retry_policy: Option<PolicyBody>,
    /// Which route its emails take, where the request does not say; `default` if left out.
    #[schema(example = "default")]
    route: Option<String>,
    /// Values to try it out with.
    #[schema(value_type = Option<Object>)]
    sample: Option<Variables>,
    /// The version that was edited; 0 for a template that is new. If another was saved meanwhile,
    /// the answer is 409. Also as the header `If-Match`.
    based_on: Option<u32>,
}

impl TemplateContentBody {
    /// The version that was edited, where it is given in the body.
    pub(crate) const fn based_on_mut(&mut self) -> &mut Option<u32> {
        &mut self.based_on
    }

    /// What it says, or all that is wrong with how it is written. Where it says nothing, `before`
    /// does.
    pub(crate) fn into_content(
        self,
        before: TemplateContent,
    ) -> Result<TemplateContent, Vec<FieldError>> {
        let mut errors = Vec::new();
        let priority = self.priority.map_or(Ok(before.priority), |text| {
            text.parse::<Priority>().map_err(|error| FieldError {
                field: "priority".into(),
                message: error.to_string(),
            })
        });
        let policy = self.retry_policy.map(PolicyBody::into_request).transpose();
        let policy = policy.unwrap_or_else(|found| {
            errors.extend(found);
            None
        });
        let priority = priority.unwrap_or_else(|error| {
            errors.push(error);
            before.priority
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(TemplateContent {
            description: self.description.unwrap_or(before.description),
            from: self.from.or(before.from),
            subject: self.subject.unwrap_or(before.subject),
            html: self.html.or(before.html),
            text: self.text.or(before.text),
            priority,
            policy: policy.map_or(before.policy, choice),
            route: self.route.map_or(before.route, chosen),
            sample: self.sample.map_or(before.sample, values),
        })
    }
}

/// The policy that is asked for, as it is kept.
pub(crate) fn choice(request: PolicyRequest) -> PolicyChoice {
    match request {
        PolicyRequest::Named(name) => PolicyChoice::Named(name),
        PolicyRequest::Own(own) => PolicyChoice::Own(own),
    }
}

/// The route that is asked for, as it is kept.
fn chosen(route: String) -> Option<String> {
    (route != DEFAULT_ROUTE).then_some(route)
}

/// The route as it is shown.
fn shown(route: Option<&String>) -> String {
    route.map_or(DEFAULT_ROUTE, String::as_str).to_owned()
}

fn values(variables: Variables) -> Map<String, Value> {
    variables.0.into_iter().collect()
}

/// A template in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TemplateSummary)]
pub(crate) struct TemplateSummary {
    /// Its name.
    name: String,
    /// Which version: 1, 2, 3 …
    version: u32,
    /// What it is for.
    description: String,
    /// The subject, with variables.
    subject: String,
    /// Which emails go first.
    #[schema(value_type = String, example = "normal")]
    priority: &'static str,
    /// How its emails are retried.
    #[schema(value_type = new_email::PolicyChoice)]
    retry_policy: PolicyChoice,
    /// Which route they take.
    #[schema(example = "default")]
    route: String,
    /// When this version was saved.
    saved_at: Time,
    /// By whom.
    saved_by: String,
}

/// A template.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Template)]
pub(crate) struct TemplateDetail {
    #[serde(flatten)]
    summary: TemplateSummary,
    /// The sender, where the request gives none.
    from: Option<String>,
    /// The HTML body, with variables.
    html: Option<String>,
    /// The text body, with variables.
    text: Option<String>,
    /// Values to try it out with.
    #[schema(value_type = Object)]
    sample: Map<String, Value>,
    /// The variables that were found in subject and bodies.
    variables: Vec<String>,
}

impl TemplateSummary {
    fn of(template: &Template) -> Self {
        let content = &template.content;
        Self {
            name: template.name.clone(),
            version: template.version,
            description: content.description.clone(),
            subject: content.subject.clone(),
            priority: content.priority.as_str(),
            retry_policy: content.policy.clone(),
            route: shown(content.route.as_ref()),
            saved_at: template.saved_at.into(),
            saved_by: template.saved_by.clone(),
        }
    }
}

impl TemplateDetail {
    /// A template, and the variables that were found in it.
    pub(crate) fn of(template: Template, variables: Vec<String>) -> Self {
        Self {
            summary: TemplateSummary::of(&template),
            from: template.content.from,
            html: template.content.html,
            text: template.content.text,
            sample: template.content.sample,
            variables,
        }
    }
}

/// Every template.
#[derive(Serialize, ToSchema)]
pub(crate) struct TemplateList {
    /// The newest version of each, by name.
    data: Vec<TemplateSummary>,
}

impl TemplateList {
    pub(crate) fn of(templates: &[Template]) -> Self {
        Self {
            data: templates.iter().map(TemplateSummary::of).collect(),
        }
    }
}

/// A version in the history of a template.
#[derive(Serialize, ToSchema)]
pub(crate) struct TemplateVersionBody {
    /// Which version.
    version: u32,
    /// When it was saved.
    saved_at: Time,
    /// By whom.
    saved_by: String,
}

/// The history of a template.
#[derive(Serialize, ToSchema)]
pub(crate) struct TemplateVersions {
    /// Its versions, newest first.
    data: Vec<TemplateVersionBody>,
}

impl TemplateVersions {
    pub(crate) fn of(versions: Vec<TemplateVersion>) -> Self {
        let body = |version: TemplateVersion| TemplateVersionBody {
            version: version.version,
            saved_at: version.saved_at.into(),
            saved_by: version.saved_by,
        };
        Self {
            data: versions.into_iter().map(body).collect(),
        }
    }
}

/// What is to be tried out. Fields of a template that are given count instead of what is saved.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplatePreviewBody {
    /// What the template needs; its sample if left out.
    #[schema(value_type = Option<Object>)]
    variables: Option<Variables>,
    /// A subject that is not saved yet.
    subject: Option<String>,
    /// An HTML body that is not saved yet.
    html: Option<String>,
    /// A text body that is not saved yet.
    text: Option<String>,
    /// A route that is not saved yet.
    route: Option<String>,
}

impl TemplatePreviewBody {
    /// Whether it has something of its own to render.
    pub(crate) const fn is_written(&self) -> bool {
        self.subject.is_some() || self.html.is_some() || self.text.is_some()
    }

    /// Whether it needs no template that is saved.
    pub(crate) const fn stands_alone(&self) -> bool {
        self.subject.is_some() && (self.html.is_some() || self.text.is_some())
    }

    /// What is rendered, and with which values.
    pub(crate) fn onto(self, before: TemplateContent) -> (TemplateContent, Map<String, Value>) {
        let values = self.variables.map(values);
        let values = values.unwrap_or_else(|| before.sample.clone());
        let content = TemplateContent {
            subject: self.subject.unwrap_or(before.subject),
            html: self.html.or(before.html),
            text: self.text.or(before.text),
            route: self.route.map_or(before.route, chosen),
            ..TemplateContent::default()
        };
        (content, values)
    }
}

/// What a template comes to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplatePreview {
    /// The subject.
    subject: String,
    /// The HTML body, if it has one.
    html: Option<String>,
    /// The text body, if it has one.
    text: Option<String>,
    /// Which route its emails take, where the request does not say.
    #[schema(example = "default")]
    route: String,
    /// The variables that were found in subject and bodies.
    variables: Vec<String>,
}

impl TemplatePreview {
    pub(crate) fn of(
        rendered: Rendered,
        content: &TemplateContent,
        variables: Vec<String>,
    ) -> Self {
        Self {
            route: shown(content.route.as_ref()),
            subject: rendered.subject,
            html: rendered.html,
            text: rendered.text,
            variables,
        }
    }
}
