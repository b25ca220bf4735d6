//! Renders templates: HTML escaped, nothing missing, nothing without end.

use std::collections::BTreeSet;

use minijinja::Environment;
use posthaste_core::template::TemplateContent;
use serde_json::Value as Json;

use super::part::{self, Part, Trouble};
use super::variables::Variables;
use crate::FieldError;
use crate::intake::field_check::Findings;

/// The name of the subject among the parts and in errors.
pub(super) const SUBJECT: &str = "subject";
/// The same of the HTML body.
pub(super) const HTML: &str = "html";
/// The same of the text body.
pub(super) const TEXT: &str = "text";
/// How much all variables may have together: what is made of them is bounded by this.
const LARGEST_VARIABLES_BYTES: usize = 512 * 1024;
/// How many missing variables are named at once.
const MOST_MISSING: usize = 20;

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
    subject: Part,
    html: Option<Part>,
    text: Option<Part>,
}

impl Compiled {
    /// Reads a template, or says what is wrong and in which line.
    pub(super) fn new(
        environment: &Environment<'static>,
        content: &TemplateContent,
    ) -> Result<Self, Vec<FieldError>> {
        let mut findings = Findings::default();
        let mut compile =
            |name, source: &str| findings.check(name, Part::compile(environment, name, source));
        let subject = compile(SUBJECT, &content.subject);
        let html = content.html.as_ref().map(|source| compile(HTML, source));
        let text = content.text.as_ref().map(|source| compile(TEXT, source));
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
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.parts().flat_map(Part::variables).collect();
        names.into_iter().collect()
    }

    /// Renders it, or says all that is missing or wrong: `variables.…` for what is missing, the
    /// name of a part for the rest.
    pub fn render<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a Json)> + Clone,
    ) -> Result<Rendered, Vec<FieldError>> {
        let bytes: usize = values
            .clone()
            .map(|(name, value)| name.len() + weight(value))
            .sum();
        if bytes > LARGEST_VARIABLES_BYTES {
            let mut findings = Findings::default();
            let most = LARGEST_VARIABLES_BYTES / 1024;
            let message =
                format!("are larger than {most} KiB together; leave out what is not shown");
            findings.note("variables", message);
            return Err(findings.into_errors());
        }
        let variables = Variables::new(values.clone(), &BTreeSet::new());
        let render = |part: &Part| part.render(&variables);
        let subject = render(&self.subject);
        let html = self.html.as_ref().map(render).transpose();
        let text = self.text.as_ref().map(render).transpose();
        let (Ok(subject), Ok(html), Ok(text)) = (subject, html, text) else {
            return Err(self.explain(values));
        };
        let subject = subject.trim().to_owned();
        let mut findings = Findings::default();
        findings.check_line(SUBJECT, &subject, super::LONGEST_SUBJECT);
        if !findings.is_empty() {
            return Err(findings.into_errors());
        }
        Ok(Rendered {
            subject,
            html,
            text,
        })
    }

    /// Everything that keeps it from being rendered.
    fn explain<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a Json)> + Clone,
    ) -> Vec<FieldError> {
        let mut findings = Findings::default();
        for (part, trouble) in self.troubles(values) {
            match trouble {
                Trouble::Missing(path) => findings.note(
                    format!("variables.{path}"),
                    format!("is missing; the {part} of the template needs it"),
                ),
                Trouble::Unknown(what) | Trouble::Failed(what) => findings.note(part, what),
            }
        }
        findings.into_errors()
    }

    /// What goes wrong in each part. A missing variable is taken for empty, to find the next.
    pub(super) fn troubles<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a Json)> + Clone,
    ) -> Vec<(&'static str, Trouble)> {
        let mut troubles = Vec::new();
        let mut missing: BTreeSet<String> = BTreeSet::new();
        for part in self.parts() {
            loop {
                let variables = Variables::new(values.clone(), &missing);
                let Err(trouble) = part.render(&variables) else {
                    break;
                };
                // What goes wrong after an assumption may be due to it.
                let is_sure = missing.is_empty() || !matches!(trouble, Trouble::Failed(_));
                let next = match &trouble {
                    Trouble::Missing(path) if !path.contains('.') => Some(path.clone()),
                    _ => None,
                };
                if is_sure {
                    troubles.push((part.name(), trouble));
                }
                let more = next.is_some_and(|name| missing.insert(name));
                if !more || missing.len() >= MOST_MISSING {
                    break;
                }
            }
        }
        troubles.dedup_by(|one, other| one.1 == other.1);
        troubles
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.subject)
            .chain(&self.html)
            .chain(&self.text)
    }
}

/// About how much memory a value takes.
fn weight(value: &Json) -> usize {
    const EACH: usize = 16;
    EACH + match value {
        Json::String(text) => text.len(),
        Json::Array(list) => list.iter().map(weight).sum(),
        Json::Object(entries) => entries
            .iter()
            .map(|(name, value)| name.len() + weight(value))
            .sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    }
}

/// What all templates have in common.
pub(super) fn environment() -> Environment<'static> {
    part::environment()
}
