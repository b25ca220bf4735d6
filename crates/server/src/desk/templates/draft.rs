//! A template as it is being written: the fields of the form, whatever stands in them.

use posthaste_core::duration::HumanDuration;
use posthaste_core::email::PolicyChoice;
use posthaste_core::retry_policy::{Backoff, RetryPolicy};
use posthaste_core::template::{MOST_URGENT_ATTEMPTS, Template, TemplateContent};
use posthaste_engine::FieldError;
use posthaste_engine::ways::DEFAULT_ROUTE;
use serde_json::{Map, Value};

use crate::access::Fields;

/// What the choice of a policy of its own is called.
pub(super) const OWN: &str = "(own)";
/// How many delays a schedule can have: one less than attempts.
pub(super) const MOST_DELAYS: usize = MOST_URGENT_ATTEMPTS as usize - 1;
/// What a schedule with too few delays ends in.
const USUAL_DELAY: &str = "15m";

/// The fields of the form.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) from: String,
    pub(super) subject: String,
    pub(super) html: String,
    pub(super) text: String,
    pub(super) priority: String,
    pub(super) sample: String,
    /// The name of a route; empty for the default one.
    pub(super) route: String,
    /// The name of a policy, or [`OWN`].
    pub(super) policy: String,
    pub(super) attempts: String,
    pub(super) delays: [String; MOST_DELAYS],
    pub(super) jitter: String,
    /// The rest of a policy of its own, which the form only carries along.
    pub(super) rest: String,
    /// The version that is edited; 0 for a new template.
    pub(super) based_on: u32,
}

impl Draft {
    /// The form for a template that is not there yet.
    pub(super) fn blank() -> Self {
        let example = TemplateContent {
            sample: Map::from_iter([("name".to_owned(), Value::from("Ann"))]),
            ..TemplateContent::default()
        };
        Self::of_content(&example)
    }

    /// The form for a version of a template; `newest` is what it is based on.
    pub(super) fn of(template: &Template, newest: u32) -> Self {
        Self {
            name: template.name.clone(),
            based_on: newest,
            ..Self::of_content(&template.content)
        }
    }

    fn of_content(content: &TemplateContent) -> Self {
        let usual = RetryPolicy::notification();
        let (policy, own) = match &content.policy {
            PolicyChoice::Named(name) => (name.clone(), &usual),
            PolicyChoice::Own(own) => (OWN.to_owned(), &**own),
        };
        let delay = |at: usize| {
            let failed = u32::try_from(at + 1).unwrap_or(u32::MAX);
            HumanDuration(own.backoff(failed)).to_string()
        };
        Self {
            description: content.description.clone(),
            from: content.from.clone().unwrap_or_default(),
            subject: content.subject.clone(),
            html: content.html.clone().unwrap_or_default(),
            text: content.text.clone().unwrap_or_default(),
            priority: content.priority.to_string(),
            sample: serde_json::to_string_pretty(&content.sample).unwrap_or_default(),
            route: content.route.clone().unwrap_or_default(),
            policy,
            attempts: own.max_attempts.to_string(),
            delays: std::array::from_fn(delay),
            jitter: own.jitter.to_string(),
            rest: serde_json::to_string(own).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// What was typed.
    pub(super) fn read(fields: &Fields) -> Self {
        // Browsers end lines as SMTP does.
        let lines = |name: &str| fields.text(name).replace("\r\n", "\n");
        let line = |name: &str| fields.text(name).trim().to_owned();
        Self {
            name: line("name"),
            description: line("description"),
            from: line("from"),
            subject: line("subject"),
            html: lines("html"),
            text: lines("text"),
            priority: line("priority"),
            sample: lines("sample"),
            route: line("route"),
            policy: line("policy"),
            attempts: line("attempts"),
            delays: std::array::from_fn(|at| line(&format!("delay{}", at + 1))),
            jitter: line("jitter"),
            rest: line("rest"),
            based_on: line("based_on").parse().unwrap_or(0),
        }
    }

    /// What the template says by this, as far as it can be read, and what cannot be read.
    pub(super) fn content(&self) -> (TemplateContent, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut wrong = |field: &str, message: String| {
            errors.push(FieldError {
                field: field.to_owned(),
                message,
            });
        };
        let default = TemplateContent::default();
        let priority = match self.priority.as_str() {
            "" => default.priority,
            text => text.parse().unwrap_or_else(|error| {
                wrong("priority", format!("{error}"));
                default.priority
            }),
        };
        let sample = match self.sample.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text).unwrap_or_else(|error| {
                wrong("sample", format!("is not a JSON object: {error}"));
                Map::new()
            }),
        };
        let policy = match self.policy.as_str() {
            "" => default.policy,
            OWN => PolicyChoice::Own(Box::new(self.own_policy(&mut wrong))),
            name => PolicyChoice::Named(name.to_owned()),
        };
        let given = |text: &String| (!text.trim().is_empty()).then(|| text.clone());
        let content = TemplateContent {
            description: self.description.clone(),
            from: given(&self.from),
            subject: self.subject.clone(),
            html: given(&self.html),
            text: given(&self.text),
            priority,
            policy,
            route: given(&self.route).filter(|name| name != DEFAULT_ROUTE),
            sample,
        };
        (content, errors)
    }

    /// The policy that the fields of the retry panel describe.
    fn own_policy(&self, wrong: &mut impl FnMut(&str, String)) -> RetryPolicy {
        let usual = RetryPolicy::notification();
        let before: RetryPolicy = serde_json::from_str(&self.rest).unwrap_or(usual);
        let max_attempts = self.attempts.parse().unwrap_or_else(|_| {
            wrong("retry_policy.max_attempts", "must be a whole number".into());
            before.max_attempts
        });
        let mut duration = |field: &str, text: &str| match text.parse::<HumanDuration>() {
            Ok(duration) => duration,
            Err(error) => {
                wrong(field, error.to_string());
                HumanDuration::default()
            }
        };
        let needed = (max_attempts.saturating_sub(1) as usize).clamp(1, MOST_DELAYS);
        let mut schedule = Vec::with_capacity(needed);
        for (at, text) in self.delays.iter().take(needed).enumerate() {
            // What is left out is as long as the one before.
            let text = match (text.as_str(), schedule.last()) {
                ("", Some(last)) => {
                    schedule.push(*last);
                    continue;
                }
                ("", None) => USUAL_DELAY,
                (text, _) => text,
            };
            schedule.push(duration(
                &format!("retry_policy.backoff.schedule[{at}]"),
                text,
            ));
        }
        let jitter = match self.jitter.as_str() {
            "" => HumanDuration::default(),
            text => duration("retry_policy.jitter", text),
        };
        RetryPolicy {
            max_attempts,
            backoff: Backoff::Schedule { schedule },
            jitter,
            ..before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_of_a_template_says_the_same() {
        let content = TemplateContent {
            from: Some("a@example.org".into()),
            subject: "s".into(),
            text: Some("t\n".into()),
            route: Some("backup".into()),
            policy: PolicyChoice::Own(Box::new(RetryPolicy {
                expire_after: Some("1d".parse().unwrap()),
                backoff: Backoff::Schedule {
                    schedule: vec!["1m".parse().unwrap(), "5m".parse().unwrap()],
                },
                ..RetryPolicy::notification()
            })),
            ..TemplateContent::default()
        };
        let (again, errors) = Draft::of_content(&content).content();
        assert_eq!(errors, []);
        assert_eq!(again, content);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let draft = Draft {
            priority: "urgent".into(),
            sample: "[1]".into(),
            policy: OWN.into(),
            attempts: "3".into(),
            delays: ["1m".into(), "soon".into(), String::new(), "x".into()],
            jitter: "often".into(),
            ..Draft::default()
        };
        let (_, errors) = draft.content();
        let fields: Vec<_> = errors.iter().map(|error| &error.field[..]).collect();
        let expected = [
            "priority",
            "sample",
            "retry_policy.backoff.schedule[1]",
            "retry_policy.jitter",
        ];
        assert_eq!(fields, expected);
    }
}
