//! What emails are made from: a subject and bodies with variables, and how they are retried.

use serde_json::{Map, Value};

use crate::Timestamp;
use crate::email::PolicyChoice;
use crate::retry_policy::{InvalidPolicy, RetryPolicy};
use crate::status::Priority;

/// The longest name of a template.
pub const LONGEST_NAME: usize = 100;
/// How many attempts a template's own schedule may have.
pub const MOST_ATTEMPTS: u32 = 3;
/// The same for templates of high priority.
pub const MOST_URGENT_ATTEMPTS: u32 = 5;

/// What a template says. Each change makes a new version.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateContent {
    /// What it is for, in a line.
    pub description: String,
    /// The sender, where the request gives none.
    pub from: Option<String>,
    /// The subject, with variables.
    pub subject: String,
    /// The HTML body, with variables; escaped as HTML.
    pub html: Option<String>,
    /// The text body, with variables.
    pub text: Option<String>,
    /// Which emails go first, where the request does not say.
    pub priority: Priority,
    /// How its emails are retried, where the request does not say.
    pub policy: PolicyChoice,
    /// Which route its emails take, where the request does not say; `None` for the default one.
    pub route: Option<String>,
    /// Values to try it out with.
    pub sample: Map<String, Value>,
}

impl Default for TemplateContent {
    fn default() -> Self {
        Self {
            description: String::new(),
            from: None,
            subject: String::new(),
            html: None,
            text: None,
            priority: Priority::Normal,
            policy: PolicyChoice::Named("notification".to_owned()),
            route: None,
            sample: Map::new(),
        }
    }
}

impl TemplateContent {
    /// Checks how it retries: the more urgent it is, the more often.
    pub fn check_policy(&self) -> Result<(), InvalidPolicy> {
        let PolicyChoice::Own(policy) = &self.policy else {
            return Ok(());
        };
        RetryPolicy::validate(policy)?;
        let most = match self.priority {
            Priority::High => MOST_URGENT_ATTEMPTS,
            Priority::Normal | Priority::Low => MOST_ATTEMPTS,
        };
        if policy.max_attempts > most {
            let message = match self.priority {
                Priority::High => format!("may be at most {most} for a template"),
                Priority::Normal | Priority::Low => format!(
                    "may be at most {most} for a template; one of high priority may have \
                     {MOST_URGENT_ATTEMPTS}"
                ),
            };
            return Err(InvalidPolicy {
                field: "max_attempts",
                message,
            });
        }
        Ok(())
    }
}

/// Whether this may be the name of a template: lowercase letters, digits, `.`, `-` and `_`. `new`
/// is where templates are made.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text != "new"
}

/// A version of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Which version: 1, 2, 3 …
    pub version: u32,
    /// What it says.
    pub content: TemplateContent,
    /// When this version was saved.
    pub saved_at: Timestamp,
    /// By whom.
    pub saved_by: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_attempts(priority: Priority, max_attempts: u32) -> TemplateContent {
        let policy = RetryPolicy {
            max_attempts,
            ..RetryPolicy::notification()
        };
        TemplateContent {
            priority,
            policy: PolicyChoice::Own(Box::new(policy)),
            ..TemplateContent::default()
        }
    }

    #[test]
    fn only_urgent_templates_may_retry_five_times() {
        assert!(with_attempts(Priority::Normal, 3).check_policy().is_ok());
        assert!(with_attempts(Priority::Normal, 4).check_policy().is_err());
        assert!(with_attempts(Priority::High, 5).check_policy().is_ok());
        assert!(with_attempts(Priority::High, 6).check_policy().is_err());
        assert!(TemplateContent::default().check_policy().is_ok());
    }

    #[test]
    fn names_are_plain() {
        for name in ["welcome", "order.confirmation-2", "a_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "new",
            "Welcome",
            "a/b",
            "-a",
            ".a",
            "ä",
            &"a".repeat(101),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
