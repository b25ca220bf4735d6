//! Resend: Standard Webhooks, which Svix sends for it under either name of the headers.

use async_trait::async_trait;
use aws_lc_rs::hmac;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::evidence::{self, header, not_believed};
use super::reading::{self, Message, first_text, needed, text};
use super::{FeedbackConfigError, ID_FIELD};

/// The shortest secret that is one; the specification asks for 24 bytes or more.
const SHORTEST_SECRET: usize = 16;

pub(super) struct Resend {
    key: hmac::Key,
}

impl Resend {
    pub(super) fn new(secret: &SecretString) -> Result<Self, FeedbackConfigError> {
        let secret = secret.expose_secret().trim();
        if secret.is_empty() {
            return Err(FeedbackConfigError::Empty("secret"));
        }
        let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
        match evidence::base64(encoded) {
            Some(secret) if secret.len() >= SHORTEST_SECRET => Ok(Self {
                key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            }),
            _ => Err(FeedbackConfigError::Secret),
        }
    }

    fn believe(&self, callback: &Callback) -> Result<(), CallbackError> {
        // All three headers of one name: mixing them would leave a choice to the sender.
        let family = match callback.header("svix-id") {
            Some(_) => "svix",
            None => "webhook",
        };
        let id = header(callback, &format!("{family}-id"))?;
        let time = header(callback, &format!("{family}-timestamp"))?;
        let signatures = header(callback, &format!("{family}-signature"))?;
        evidence::check_age_of_seconds(time, callback.at, evidence::TOLERANCE)?;
        let signed: [&[u8]; 5] = [id.as_bytes(), b".", time.as_bytes(), b".", &callback.body];
        // There are several while a secret is being replaced.
        let is_ours = |signature: &str| {
            let tag = signature.strip_prefix("v1,").and_then(evidence::base64);
            tag.is_some_and(|tag| evidence::is_hmac(&self.key, &signed, &tag))
        };
        if signatures.split(' ').any(is_ours) {
            Ok(())
        } else {
            Err(not_believed("no signature fits; check `secret`"))
        }
    }
}

fn read(event: &Value) -> Result<Vec<ProviderEvent>, CallbackError> {
    let is_permanent = || text(event, "/data/bounce/type") == Some("Permanent");
    let happening = match needed(event, "/type")? {
        "email.delivered" => Happening::Delivered,
        "email.bounced" if is_permanent() => Happening::Bounced,
        // Resend did not even try: the address had bounced or complained before.
        "email.suppressed" => Happening::Bounced,
        "email.complained" => Happening::Complained,
        // `email.failed` is about quotas and domains, not about the recipient.
        _ => return Ok(Vec::new()),
    };
    let message = Message {
        happening,
        provider_id: needed(event, "/data/email_id")?,
        email_id: reading::email_id(tag(event)),
    };
    let words = first_text(
        event,
        &[
            "/data/bounce/message",
            "/data/bounce/diagnosticCode/0",
            "/data/suppressed/message",
        ],
    );
    let recipients = match event.pointer("/data/to") {
        Some(Value::String(one)) => vec![one.as_str()],
        _ => reading::list(event, "/data/to")
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    };
    let about = |recipient| message.about(recipient, words);
    Ok(recipients.into_iter().filter_map(about).collect())
}

/// Tags are documented as a list of names and values, and shown as an object.
fn tag(event: &Value) -> Option<&str> {
    let in_list = || {
        let is_ours = |tag: &&Value| text(tag, "/name") == Some(ID_FIELD);
        let mut tags = reading::list(event, "/data/tags").iter();
        tags.find(is_ours).and_then(|tag| text(tag, "/value"))
    };
    text(event, &format!("/data/tags/{ID_FIELD}")).or_else(in_list)
}

#[async_trait]
impl FeedbackReader for Resend {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        self.believe(callback)?;
        read(&reading::json(&callback.body)?)
    }
}
