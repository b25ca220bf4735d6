//! The stream of mail: who gets it, what it is made from, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::Actor;
use posthaste_core::status::Priority;
use posthaste_core::template::TemplateContent;
use posthaste_engine::intake::{EmailRequest, Submitter};
use posthaste_engine::{Engine, Intake};
use serde_json::json;

/// Recipients whom nothing happens to.
const NAMES: [&str; 12] = [
    "ada", "boris", "chen", "dana", "emil", "fatou", "grace", "hugo", "ines", "jonas", "kim", "lea",
];

/// How the mail server treats a recipient of this name; the empty one is an ordinary one. One after
/// the other, over and over: after 36 emails everything has happened once.
const FATES: [&str; 36] = [
    "",
    "",
    "reject",
    "",
    "fail1",
    "",
    "",
    "full",
    "",
    "greylist",
    "",
    "", //
    "fail4",
    "",
    "drop",
    "",
    "",
    "",
    "spam",
    "",
    "fail2",
    "",
    "drop-after-dot",
    "", //
    "",
    "flaky40",
    "",
    "",
    "slow800",
    "",
    "fail4",
    "",
    "",
    "reject-data",
    "",
    "",
];

/// The templates: name, description, subject, text, priority, retry policy.
const TEMPLATES: [(&str, &str, &str, &str, Priority, &str); 4] = [
    (
        "welcome",
        "Greets new customers",
        "Welcome, {{ name }}",
        "Hello {{ name }},\n\nyour account is ready.\n",
        Priority::Normal,
        "email",
    ),
    (
        "invoice",
        "Sent with every order",
        "Your invoice {{ number }}",
        "Hello {{ name }},\n\nhere is your invoice {{ number }}. Thank you.\n",
        Priority::Normal,
        "careful",
    ),
    (
        "password-reset",
        "Somebody waits in front of a screen for this one",
        "Your code is {{ number }}",
        "Hello {{ name }},\n\nyour code is {{ number }}.\n",
        Priority::High,
        "email",
    ),
    (
        "newsletter",
        "Goes out when nothing else does",
        "News for {{ name }}",
        "Hello {{ name }},\n\nnothing is new, number {{ number }}.\n",
        Priority::Low,
        "email",
    ),
];

/// Hands in one email after the other.
pub(super) struct Mail {
    intake: Arc<Intake>,
    submitter: Submitter,
    count: AtomicUsize,
}

impl Mail {
    /// Saves the templates.
    pub(super) async fn prepare(engine: &Engine) -> anyhow::Result<Self> {
        let actor = Actor {
            name: "demo".into(),
            owner: None,
        };
        for (name, description, subject, text, priority, policy) in TEMPLATES {
            let html: String = text
                .split("\n\n")
                .map(|paragraph| format!("<p>{}</p>\n", paragraph.trim()))
                .collect();
            let sample = json!({"name": "Ada", "number": 4711});
            let content = TemplateContent {
                description: description.into(),
                from: Some("Demo Shop <shop@example.com>".into()),
                subject: subject.into(),
                html: Some(html),
                text: Some(text.into()),
                priority,
                policy: PolicyChoice::Named(policy.into()),
                route: None,
                sample: sample.as_object().cloned().unwrap_or_default(),
            };
            engine.templates.save(name, content, None, &actor).await?;
        }
        Ok(Self {
            intake: Arc::clone(&engine.intake),
            submitter: Submitter {
                owner: "default".into(),
                from_addresses: Vec::new(),
            },
            count: AtomicUsize::new(0),
        })
    }

    /// Hands in the next email. One that is refused, because too many wait, is left out.
    pub(super) async fn send_next(&self) {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        let _ = self.intake.take(&self.submitter, vec![request(n)]).await;
    }
}

fn request(n: usize) -> EmailRequest {
    let name = NAMES[n % NAMES.len()];
    let fate = FATES[n % FATES.len()];
    let to = match fate {
        "" => format!("{name}@example.com"),
        // What comes after the plus sign is no matter to the mail server's mood.
        fate => format!("{fate}+{name}{n}@example.com"),
    };
    // An invoice that may have arrived is left to people.
    let template = match fate {
        "drop-after-dot" => "invoice",
        _ => TEMPLATES[n % TEMPLATES.len()].0,
    };
    let mut capital = name.to_owned();
    capital[..1].make_ascii_uppercase();
    EmailRequest {
        to: vec![to],
        template: Some(template.into()),
        variables: [
            ("name".to_owned(), json!(capital)),
            ("number".to_owned(), json!(4711 + n)),
        ]
        .into(),
        ..EmailRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_mail_is_fine_and_every_mood_is_known_to_the_sink() {
        let fine = FATES.iter().filter(|fate| fate.is_empty()).count();
        assert!(fine * 2 > FATES.len(), "{fine} are fine");
        for fate in FATES.iter().filter(|fate| !fate.is_empty()) {
            let bare = fate.trim_end_matches(|c: char| c.is_ascii_digit());
            let known = posthaste_sink::behaviours()
                .iter()
                .any(|behaviour| behaviour.pattern.split('<').next() == Some(bare));
            assert!(known, "{fate}");
        }
    }
}
