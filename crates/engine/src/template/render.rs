//! Renders templates: HTML escaped, nothing missing, nothing without end.

use std::collections::BTreeSet;

use posthaste_core::template::TemplateContent;
use serde_json::Value as Json;

use super::language::{Program, Trouble, Variables};
use crate::FieldError;
use crate::intake::field_check::Findings;

/// The name of the subject among the parts and in errors.
pub(super) const SUBJECT: &str = "subject";
/// The same of the HTML body.
pub(super) const HTML: &str = "html";
/// The same of the text body.
pub(super) const TEXT: &str = "text";

/// What became of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The subject: one line.
    pub subject: String,
    /// The HTML body, if it has one.
    pub html: Option<String>,
    /// The text body, if it has one.
    pub text: Option<String>,
}

/// A template that was read once and can be rendered many times.
pub struct Compiled {
    subject: Program,
    html: Option<Program>,
    text: Option<Program>,
}

impl Compiled {
    /// Reads a template, or says what is wrong and in which line.
    pub(super) fn new(content: &TemplateContent) -> Result<Self, Vec<FieldError>> {
        let mut findings = Findings::default();
        let mut read = |name, source: &str| findings.check(name, Program::read(source));
        let subject = read(SUBJECT, &content.subject);
        let html = content.html.as_ref().map(|source| read(HTML, source));
        let text = content.text.as_ref().map(|source| read(TEXT, source));
        match subject {
            Some(subject) if findings.is_empty() => Ok(Self {
                subject,
                html: html.flatten(),
                text: text.flatten(),
            }),
            _ => Err(findings.into_errors()),
        }
    }

    /// The variables it needs or may need, by their first names, in order.
    pub(super) fn variables(&self) -> Vec<String> {
        let parts = [Some(&self.subject), self.html.as_ref(), self.text.as_ref()];
        let names = parts.into_iter().flatten().flat_map(Program::variables);
        let names: BTreeSet<&String> = names.collect();
        names.into_iter().cloned().collect()
    }

    /// Renders it, or says all that is missing or wrong: `variables.…` for what is missing, the
    /// name of a part for the rest.
    pub fn render<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a Json)>,
    ) -> Result<Rendered, Vec<FieldError>> {
        let variables: Variables<'_> = values.map(|(name, value)| (&name[..], value)).collect();
        let mut findings = Findings::default();
        let mut missing = BTreeSet::new();
        let mut render = |name, part: &Program| {
            let troubles = part.render(&variables, name == HTML);
            troubles
                .map_err(|troubles| explain(name, troubles, &mut missing, &mut findings))
                .ok()
        };
        let subject = render(SUBJECT, &self.subject);
        let html = self.html.as_ref().and_then(|part| render(HTML, part));
        let text = self.text.as_ref().and_then(|part| render(TEXT, part));
        let subject = subject.unwrap_or_default().trim().to_owned();
        if findings.is_empty() {
            findings.check_line(SUBJECT, &subject, super::LONGEST_SUBJECT);
        }
        if !findings.is_empty() {
            return Err(findings.into_errors());
        }
        Ok(Rendered {
            subject,
            html,
            text,
        })
    }
}

/// Notes what went wrong in a part; what is missing only once.
fn explain(
    part: &str,
    troubles: Vec<Trouble>,
    missing: &mut BTreeSet<String>,
    findings: &mut Findings,
) {
    for trouble in troubles {
        match trouble {
            Trouble::Missing(path) => {
                let message = format!("is missing; the {part} of the template needs it");
                let field = format!("variables.{path}");
                if missing.insert(path) {
                    findings.note(field, message);
                }
            }
            Trouble::Failed(what) => findings.note(part, what),
        }
    }
}
