//! The editor of a template: what it says, what it comes to, and how its emails are retried.

use maud::{Markup, PreEscaped, html};
use posthaste_core::Timestamp;
use posthaste_core::port::TemplateVersion;
use posthaste_core::status::Priority;
use posthaste_core::template::TemplateContent;
use posthaste_engine::template::Rendered;
use posthaste_engine::ways::DEFAULT_ROUTE;
use posthaste_engine::{FieldError, Templates};

use super::draft::{Draft, MOST_DELAYS, OWN};
use super::timeline;
use crate::access::Visitor;
use crate::desk::email::button;
use crate::page::{self, moment};

/// What the page shows.
pub(super) struct Editor<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) templates: &'a Templates,
    pub(super) now: Timestamp,
    /// What stands in the form.
    pub(super) draft: Draft,
    /// Which version that was when it was opened; 0 for none.
    pub(super) version: u32,
    /// Every version, newest first.
    pub(super) versions: Vec<TemplateVersion>,
    /// What is wrong with it.
    pub(super) errors: Vec<FieldError>,
    /// What is to be said above it.
    pub(super) notice: Option<Markup>,
    /// Where a test goes.
    pub(super) test_to: String,
}

impl Editor<'_> {
    /// The whole page.
    pub(super) fn markup(&self) -> Markup {
        let (content, unread) = self.draft.content();
        let is_new = self.draft.based_on == 0;
        let newest = self.draft.based_on;
        html! {
            (page::template_assets())
            nav class="small" aria-label="Where this is" { a href="/admin/templates" { "Templates" } " / " }
            div class="head" {
                h1 { @if is_new { "New template" } @else { (self.draft.name) } }
                @if !is_new { span class="faint" { "Version " (newest) } }
            }
            @if let Some(notice) = &self.notice { (notice) }
            @if self.version != 0 && self.version != newest {
                p class="warning" {
                    "This is version " (self.version) ". The newest is "
                    a href={ "/admin/templates/" (self.draft.name) } { "version " (newest) }
                    ". Saving this makes it the newest again."
                }
            }
            (self.error_summary())
            div class="split editor" {
                form method="post" action="/admin/templates" id="editor"
                    data-preview=[self.visitor.may_act().then_some("/admin/template-preview")] {
                    (self.visitor.csrf_field())
                    input type="hidden" name="based_on" value=(self.draft.based_on);
                    input type="hidden" name="version" value=(self.version);
                    section class="panel" aria-label="What it says" { (self.texts(is_new)) }
                    section class="panel retry" aria-labelledby="retries" {
                        h2 id="retries" { "Retries" }
                        (self.retries(&content, &unread))
                    }
                    (self.buttons())
                }
                div {
                    section class="panel" aria-labelledby="preview" { (self.preview(&content, &unread)) }
                    @if self.visitor.may_act() { section class="panel" aria-labelledby="test" { (self.test()) } }
                    @if !self.versions.is_empty() {
                        section class="panel" aria-labelledby="versions" { (self.history()) }
                    }
                    @if !is_new && self.visitor.may_act() { section class="panel" { (self.deletion()) } }
                }
            }
        }
    }

    fn error_summary(&self) -> Markup {
        html! {
            @if !self.errors.is_empty() {
                div class="error" role="alert" {
                    strong { "It was not saved." }
                    ul { @for error in &self.errors { li { code { (error.field) } " " (error.message) } } }
                }
            }
        }
    }

    /// What is wrong with a field.
    fn wrong(&self, field: &str) -> Markup {
        let errors = self.errors.iter().filter(|error| error.field == field);
        html! { @for error in errors { span class="wrong" { (error.message) } } }
    }

    fn line(&self, name: &str, label: &str, value: &str, hint: &str) -> Markup {
        html! {
            div class="field" {
                label for=(name) { (label) }
                input id=(name) name=(name) value=(value) readonly[!self.visitor.may_act()] autocomplete="off";
                @if !hint.is_empty() { span class="hint" { (hint) } }
                (self.wrong(name))
            }
        }
    }

    fn area(&self, name: &str, label: &str, value: &str, rows: u32) -> Markup {
        html! {
            div class="field" {
                label for=(name) { (label) }
                // The first line break inside belongs to the tag, not to the text.
                textarea id=(name) name=(name) rows=(rows) spellcheck="false" readonly[!self.visitor.may_act()] {
                    (PreEscaped("\n")) (value)
                }
                (self.wrong(name))
            }
        }
    }

    fn texts(&self, is_new: bool) -> Markup {
        let draft = &self.draft;
        html! {
            @if is_new {
                (self.line("name", "Name", &draft.name, "Programs send by it: lowercase letters, digits, . - and _"))
            } @else {
                input type="hidden" name="name" value=(draft.name);
            }
            (self.line("description", "What it is for", &draft.description, ""))
            (self.line("subject", "Subject", &draft.subject, ""))
            (self.area("html", "HTML", &draft.html, 12))
            (self.area("text", "Text", &draft.text, 8))
            (self.area("sample", "Sample data (JSON)", &draft.sample, 5))
            div class="pair" {
                (self.line("from", "From", &draft.from, "Where the request gives none"))
                div class="field" {
                    label for="priority" { "Priority" }
                    select id="priority" name="priority" {
                        @for priority in Priority::ALL {
                            option value=(priority) selected[draft.priority == priority.as_str()] { (priority) }
                        }
                    }
                    (self.wrong("priority"))
                }
            }
            (self.route())
        }
    }

    /// Which route its emails take, where there is something to choose.
    fn route(&self) -> Markup {
        let chosen = match self.draft.route.as_str() {
            "" => DEFAULT_ROUTE,
            name => name,
        };
        let mut routes: Vec<&str> = self.templates.policies().routes().collect();
        // One that was taken out of the configuration is shown, so that another can be chosen.
        if !routes.contains(&chosen) {
            routes.push(chosen);
        }
        html! {
            @if routes.len() > 1 {
                div class="field" {
                    label for="route" { "Route" }
                    select id="route" name="route" {
                        @for name in routes { option value=(name) selected[name == chosen] { (name) } }
                    }
                    span class="hint" { "Which ways out its emails may take, where the request does not say" }
                    (self.wrong("route"))
                }
            }
        }
    }

    fn retries(&self, content: &TemplateContent, unread: &[FieldError]) -> Markup {
        let draft = &self.draft;
        html! {
            div class="field" {
                label for="policy" { "Policy" }
                select id="policy" name="policy" {
                    @for name in self.templates.policies().names() {
                        option value=(name) selected[draft.policy == name] { (name) }
                    }
                    option value=(OWN) selected[draft.policy == OWN] { "Own schedule" }
                }
                (self.wrong("retry_policy"))
            }
            fieldset class="own" {
                legend { "Own schedule" }
                input type="hidden" name="rest" value=(draft.rest);
                div class="field" {
                    label for="attempts" { "Attempts" }
                    input id="attempts" name="attempts" type="number" min="1" max=(MOST_DELAYS + 1) value=(draft.attempts);
                    span class="hint" { "1 to 3; up to 5 for high priority" }
                }
                div class="delays" {
                    @for (at, delay) in draft.delays.iter().enumerate() {
                        div class="field" data-delay=(at + 1) {
                            label for={ "delay" (at + 1) } { "Wait " (at + 1) }
                            input id={ "delay" (at + 1) } name={ "delay" (at + 1) } value=(delay) size="6" autocomplete="off";
                        }
                    }
                    div class="field" {
                        label for="jitter" { "Jitter" }
                        input id="jitter" name="jitter" value=(draft.jitter) size="6" autocomplete="off";
                    }
                }
                p class="faint small" { "As in 30s, 5m, 2h. Up to the jitter is added to each wait, so that retries do not come in herds." }
            }
            div data-part="plan" aria-live="polite" { (self.plan(content, unread)) }
        }
    }

    /// The attempts, or why they cannot be shown.
    fn plan(&self, content: &TemplateContent, unread: &[FieldError]) -> Markup {
        let mut wrong: Vec<String> = unread
            .iter()
            .filter(|error| error.field.starts_with("retry_policy"))
            .map(|error| format!("{} {}", error.field, error.message))
            .collect();
        if let Err(error) = content.check_policy()
            && wrong.is_empty()
        {
            wrong.push(error.to_string());
        }
        html! {
            @if wrong.is_empty() {
                (timeline::draw(self.templates.policies().of(&content.policy), self.now))
            } @else {
                @for message in wrong { p class="error" { (message) } }
            }
        }
    }

    fn buttons(&self) -> Markup {
        let restores = self.version != 0 && self.version != self.draft.based_on;
        html! {
            @if self.visitor.may_act() {
                div class="actions" {
                    button class="first" { @if restores { "Restore this version" } @else { "Save" } }
                    button formaction="/admin/template-preview" formnovalidate { "Preview" }
                }
            }
        }
    }

    fn preview(&self, content: &TemplateContent, unread: &[FieldError]) -> Markup {
        let unread_sample = unread.iter().find(|error| error.field == "sample");
        let rendered = match unread_sample {
            Some(error) => Err(vec![error.clone()]),
            None => self.templates.render(content, &content.sample),
        };
        let variables = self.templates.variables(content);
        html! {
            h2 id="preview" { "Preview" }
            div data-part="preview" aria-live="polite" {
                p class="variables" {
                    @if variables.is_empty() { span class="faint" { "No variables found. Write one as {{ name }}." } }
                    @for variable in &variables {
                        @let known = content.sample.contains_key(variable);
                        span class={ "pill " (if known { "good" } else { "warn" }) } {
                            span aria-hidden="true" { (if known { "✓ " } else { "! " }) } (variable)
                            @if !known { span class="hidden" { " is not in the sample data" } }
                        }
                        " "
                    }
                }
                @match &rendered {
                    Ok(rendered) => (outcome(rendered)),
                    Err(errors) => {
                        @for error in errors { p class="error" { code { (error.field) } " " (error.message) } }
                    }
                }
            }
            @let html = rendered.ok().and_then(|rendered| rendered.html);
            iframe id="preview-html" sandbox="" title="The HTML of the preview" hidden[html.is_none()] srcdoc=(page::powerless(&html.unwrap_or_default())) {}
            p class="faint small" { "Shown without scripts, and without loading anything from elsewhere." }
        }
    }

    fn test(&self) -> Markup {
        html! {
            h2 id="test" { "Send a test" }
            p class="faint small" { "Sends what stands in the form, with the sample data, as a real email." }
            div class="filters" {
                label { "To" input name="test_to" type="email" form="editor" value=(self.test_to) placeholder="you@example.org"; }
                button form="editor" formaction="/admin/template-test" formnovalidate { "Send a test" }
            }
        }
    }

    fn history(&self) -> Markup {
        let base = format!("/admin/templates/{}", self.draft.name);
        html! {
            h2 id="versions" { "Versions" }
            ul class="versions" {
                @for (at, version) in self.versions.iter().enumerate() {
                    li {
                        a href={ (base) "?version=" (version.version) }
                            aria-current=[(version.version == self.version).then_some("true")] {
                            "Version " (version.version)
                        }
                        @if at == 0 { " (newest)" }
                        span class="faint" { " " (moment(version.saved_at, self.now)) " by " (version.saved_by) }
                    }
                }
            }
        }
    }

    fn deletion(&self) -> Markup {
        let to = format!("/admin/templates/{}/delete", self.draft.name);
        html! {
            details {
                summary { "Delete this template" }
                p class="faint" {
                    "Programs that send by it are refused from then on. Emails that were made from it stay as they are, and so do its versions: saved again under this name, it goes on with the next."
                }
                (button(self.visitor, &to, "danger", "Delete it", ""))
            }
        }
    }
}

fn outcome(rendered: &Rendered) -> Markup {
    html! {
        p class="subject" { span class="faint" { "Subject " } strong { (rendered.subject) } }
        @if let Some(text) = &rendered.text {
            details open[rendered.html.is_none()] { summary { "Text" } pre { (text) } }
        }
    }
}
