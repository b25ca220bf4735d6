//! Mailgun, whose signature covers a time and a token, but not the event.
//!
//! Whoever overheard one callback could therefore sign another with it. So a token is remembered
//! for as long as its time is believed, and is good for one body only; the same body may come
//! again, since Mailgun repeats what was not taken.

use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::hmac;
use moka::future::Cache;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::evidence::{self, not_believed};
use super::reading::{self, Message, first_text, needed, text};
use super::{FeedbackConfigError, ID_FIELD};

/// Mailgun says again what we could not take, for eight hours, and does not sign it anew. Each token
/// is good for one body only, so that nothing is gained by keeping one.
const TOLERANCE: i64 = 9 * 3600;
/// How many tokens are remembered.
const TOKENS: u64 = 100_000;

pub(super) struct Mailgun {
    key: hmac::Key,
    /// In lower case.
    domain: Option<String>,
    /// The hash of the body that each token came with.
    seen: Cache<String, [u8; 32]>,
}

impl Mailgun {
    pub(super) fn new(
        signing_key: &SecretString,
        domain: Option<String>,
    ) -> Result<Self, FeedbackConfigError> {
        let key = signing_key.expose_secret().trim();
        if key.is_empty() {
            return Err(FeedbackConfigError::Empty("signing_key"));
        }
        if domain
            .as_deref()
            .is_some_and(|domain| domain.trim().is_empty())
        {
            return Err(FeedbackConfigError::Empty("domain"));
        }
        // A time from the future is believed, and then for as long again as it is past.
        let believed = Duration::from_secs(2 * TOLERANCE.unsigned_abs() + 1);
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()),
            domain: domain.map(|domain| domain.trim().to_ascii_lowercase()),
            seen: Cache::builder()
                .max_capacity(TOKENS)
                .time_to_live(believed)
                .build(),
        })
    }

    async fn believe(&self, callback: &Callback, body: &Value) -> Result<(), CallbackError> {
        let part = |name: &str| {
            let missing = || not_believed(format!("the body has no `signature.{name}`"));
            text(body, &format!("/signature/{name}")).ok_or_else(missing)
        };
        let (time, token, signature) = (part("timestamp")?, part("token")?, part("signature")?);
        evidence::check_age_of_seconds(time, callback.at, TOLERANCE)?;
        let tag = evidence::hex32(signature);
        let signed = [time.as_bytes(), token.as_bytes()];
        if !tag.is_some_and(|tag| evidence::is_hmac(&self.key, &signed, &tag)) {
            return Err(not_believed(
                "the signature does not fit; check `signing_key`",
            ));
        }
        self.believe_domain(body)?;
        let hash = evidence::sha256(&callback.body);
        // Time and token are signed without a border between them, so both are the key.
        let key = format!("{time} {token}");
        let first = self.seen.get_with(key, async { hash }).await;
        if first == hash {
            Ok(())
        } else {
            Err(not_believed("the signature was used with another body"))
        }
    }

    /// The account: the sending domain. Events without its name tell it by where the message is
    /// stored.
    fn believe_domain(&self, body: &Value) -> Result<(), CallbackError> {
        let Some(expected) = &self.domain else {
            return Ok(());
        };
        let stored = || domain_of_storage(text(body, "/event-data/storage/url")?);
        let said = text(body, "/event-data/domain/name").or_else(stored);
        if said.is_some_and(|said| said.eq_ignore_ascii_case(expected)) {
            Ok(())
        } else {
            Err(not_believed(
                "the event is of another domain; check `domain`",
            ))
        }
    }
}

/// The domain in `https://…/v3/domains/<domain>/messages/…`.
fn domain_of_storage(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("/domains/")?;
    rest.split('/').next()
}

fn read(body: &Value) -> Result<Vec<ProviderEvent>, CallbackError> {
    let Some(happening) = happening(body, needed(body, "/event-data/event")?) else {
        return Ok(Vec::new());
    };
    // Some write the id in angle brackets, some do not.
    let provider_id = needed(body, "/event-data/message/headers/message-id")?;
    let message = Message {
        happening,
        provider_id: provider_id.trim_start_matches('<').trim_end_matches('>'),
        email_id: reading::email_id(text(
            body,
            &format!("/event-data/user-variables/{ID_FIELD}"),
        )),
    };
    let words = first_text(
        body,
        &[
            "/event-data/delivery-status/message",
            "/event-data/delivery-status/description",
            "/event-data/reason",
        ],
    );
    let recipient = needed(body, "/event-data/recipient")?;
    Ok(message.about(recipient, words).into_iter().collect())
}

fn happening(body: &Value, event: &str) -> Option<Happening> {
    match event {
        "delivered" => Some(Happening::Delivered),
        "failed" if text(body, "/event-data/severity") == Some("permanent") => {
            match text(body, "/event-data/reason") {
                Some("suppress-complaint") => Some(Happening::Complained),
                // Given up, blocked by a reputation, or unsubscribed: the address is good.
                Some("old" | "espblock" | "suppress-unsubscribe") => None,
                _ => Some(Happening::Bounced),
            }
        }
        "complained" => Some(Happening::Complained),
        _ => None,
    }
}

#[async_trait]
impl FeedbackReader for Mailgun {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        // The signature stands inside the body, so the body must be read to be checked.
        let body = reading::json(&callback.body)?;
        self.believe(callback, &body).await?;
        read(&body)
    }
}
