//! What a template must be like before it is saved.

use minijinja::Environment;
use posthaste_core::address::Mailbox;
use posthaste_core::email::PolicyChoice;
use posthaste_core::template::{LONGEST_NAME, TemplateContent, is_name};

use super::part::Trouble;
use super::render::{Compiled, HTML, SUBJECT, TEXT};
use crate::intake::field_check::Findings;
use crate::{FieldError, Policies};

/// The longest subject, with its variables as with what they stand for.
pub(super) const LONGEST_SUBJECT: usize = 1_000;
const LARGEST_BODY_BYTES: usize = 1024 * 1024;
const LARGEST_SAMPLE_BYTES: usize = 256 * 1024;
const LONGEST_DESCRIPTION: usize = 200;

/// Checks the name of a template.
pub(super) fn name(name: &str) -> Vec<FieldError> {
    let mut findings = Findings::default();
    if !is_name(name) {
        findings.note(
            "name",
            format!(
                "must be 1 to {LONGEST_NAME} lowercase letters, digits, `.`, `-` and `_`, and begin \
                 with a letter or a digit, such as order-confirmation"
            ),
        );
    }
    findings.into_errors()
}

/// Checks what a template says.
pub(super) fn content(
    environment: &Environment<'static>,
    content: &TemplateContent,
    policies: &Policies,
) -> Vec<FieldError> {
    let mut findings = Findings::default();
    findings.check_line("description", &content.description, LONGEST_DESCRIPTION);
    if let Some(from) = &content.from {
        findings.check("from", Mailbox::parse(from));
    }
    check_texts(content, &mut findings);
    check_policy(content, policies, &mut findings);
    if let Some(message) = content
        .route
        .as_deref()
        .and_then(|name| policies.unknown_route(name))
    {
        findings.note("route", message);
    }
    let sample = serde_json::to_string(&content.sample).unwrap_or_default();
    if sample.len() > LARGEST_SAMPLE_BYTES {
        let most = LARGEST_SAMPLE_BYTES / 1024;
        findings.note("sample", format!("is larger than {most} KiB"));
    }
    match Compiled::new(environment, content) {
        Err(errors) => findings.extend(errors),
        // Names of filters and the like are only looked up when they are used.
        Ok(compiled) => {
            for (part, trouble) in compiled.troubles(content.sample.iter()) {
                if let Trouble::Unknown(what) = trouble {
                    findings.note(part, what);
                }
            }
        }
    }
    findings.into_errors()
}

fn check_texts(content: &TemplateContent, findings: &mut Findings) {
    if content.subject.trim().is_empty() {
        findings.note(
            SUBJECT,
            "is empty; give one, such as Your order {{ number }}",
        );
    }
    if content.subject.chars().count() > LONGEST_SUBJECT {
        let message = format!("is longer than {LONGEST_SUBJECT} characters");
        findings.note(SUBJECT, message);
    }
    let bodies = [(HTML, &content.html), (TEXT, &content.text)];
    if bodies.iter().all(|(_, body)| body.is_none()) {
        findings.note(TEXT, "is missing; give text, html or both");
    }
    for (field, body) in bodies {
        if body
            .as_ref()
            .is_some_and(|body| body.len() > LARGEST_BODY_BYTES)
        {
            findings.note(field, "is larger than 1 MiB");
        }
    }
    let texts = bodies
        .into_iter()
        .filter_map(|(field, body)| Some((field, body.as_ref()?)));
    for (field, text) in texts.chain([(SUBJECT, &content.subject)]) {
        if text.contains('\0') {
            findings.note(field, "contains a NUL character; remove it");
        }
    }
}

fn check_policy(content: &TemplateContent, policies: &Policies, findings: &mut Findings) {
    match &content.policy {
        PolicyChoice::Named(name) => {
            if let Some(message) = policies.unknown(name) {
                findings.note("retry_policy", message);
            }
        }
        PolicyChoice::Own(_) => {
            if let Err(error) = content.check_policy() {
                findings.note(format!("retry_policy.{}", error.field), error.message);
            }
        }
    }
}
