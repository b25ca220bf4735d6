//! Makes an email of a template: what the request leaves out, the template says.

use std::sync::Arc;

use posthaste_core::email::PolicyChoice;
use posthaste_core::status::Priority;

use super::field_check::Findings;
use super::request::EmailRequest;
use crate::template::ReadyTemplate;

/// The template that a request names, or what to say about a name that none has.
pub(super) type Wanted = Result<Arc<ReadyTemplate>, String>;

/// What counts where the request does not say.
pub(super) struct Defaults {
    pub(super) policy: PolicyChoice,
    pub(super) priority: Priority,
    pub(super) route: Option<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            policy: PolicyChoice::default(),
            priority: Priority::Normal,
            route: None,
        }
    }
}

impl EmailRequest {
    /// Renders the template into the request. A subject that is given counts; bodies are the
    /// template's.
    pub(super) fn fill_in(&mut self, template: Wanted, findings: &mut Findings) -> Defaults {
        for (field, body) in [("text", &mut self.text), ("html", &mut self.html)] {
            if body.take().is_some() {
                findings.note(
                    field,
                    "stands beside a template, which has its own; leave out one of them",
                );
            }
        }
        let ready = match template {
            Ok(ready) => ready,
            Err(advice) => {
                findings.note("template", advice);
                return Defaults::default();
            }
        };
        let content = &ready.template.content;
        if self.from.is_empty() {
            self.from = content.from.clone().unwrap_or_default();
        }
        match ready.render(self.variables.iter()) {
            Ok(rendered) => {
                if self.subject.is_empty() {
                    self.subject = rendered.subject;
                }
                (self.html, self.text) = (rendered.html, rendered.text);
            }
            Err(errors) => {
                for error in errors {
                    if error.field.starts_with("variables") {
                        findings.note(error.field, error.message);
                    } else {
                        let message = format!("its {}: {}", error.field, error.message);
                        findings.note("template", message);
                    }
                }
            }
        }
        Defaults {
            policy: content.policy.clone(),
            priority: content.priority,
            route: content.route.clone(),
        }
    }
}
