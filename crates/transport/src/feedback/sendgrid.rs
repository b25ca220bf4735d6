//! SendGrid: the signed event webhook, which posts events in batches.

use async_trait::async_trait;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use serde_json::Value;

use super::evidence::{self, header, not_believed};
use super::reading::{self, Message, first_text, not_understood, text};
use super::{FeedbackConfigError, ID_FIELD};

const SIGNATURE: &str = "x-twilio-email-event-webhook-signature";
const TIME: &str = "x-twilio-email-event-webhook-timestamp";

pub(super) struct SendGrid {
    key: ParsedPublicKey,
}

impl SendGrid {
    pub(super) fn new(public_key: &str) -> Result<Self, FeedbackConfigError> {
        if public_key.trim().is_empty() {
            return Err(FeedbackConfigError::Empty("public_key"));
        }
        let der = evidence::base64(public_key).ok_or(FeedbackConfigError::PublicKey)?;
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, der)
            .map_err(|_| FeedbackConfigError::PublicKey)?;
        Ok(Self { key })
    }

    fn believe(&self, callback: &Callback) -> Result<(), CallbackError> {
        let time = header(callback, TIME)?;
        let signature = evidence::base64(header(callback, SIGNATURE)?)
            .ok_or_else(|| not_believed("the signature is not base64"))?;
        evidence::check_age_of_seconds(time, callback.at, evidence::TOLERANCE)?;
        let mut signed = time.as_bytes().to_vec();
        signed.extend_from_slice(&callback.body);
        self.key
            .verify_sig(&signed, &signature)
            .map_err(|_| not_believed("the signature does not fit; check `public_key`"))
    }
}

/// One event of a batch. What cannot be read is left out, so that it does not spoil the others.
fn read(event: &Value) -> Option<ProviderEvent> {
    let message = Message {
        happening: happening(event)?,
        // What follows the first dot names SendGrid's own machines.
        provider_id: text(event, "/sg_message_id")?.split('.').next()?,
        email_id: reading::email_id(text(event, &format!("/{ID_FIELD}"))),
    };
    let words = first_text(event, &["/reason", "/response"]);
    message.about(text(event, "/email")?, words)
}

fn happening(event: &Value) -> Option<Happening> {
    match text(event, "/event")? {
        "delivered" => Some(Happening::Delivered),
        // `blocked` is a refusal of the moment, not of the address.
        "bounce" if text(event, "/type") == Some("bounce") => Some(Happening::Bounced),
        "dropped" => match text(event, "/reason")? {
            "Bounced Address" | "Invalid" => Some(Happening::Bounced),
            "Spam Reporting Address" => Some(Happening::Complained),
            _ => None,
        },
        "spamreport" => Some(Happening::Complained),
        _ => None,
    }
}

#[async_trait]
impl FeedbackReader for SendGrid {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        self.believe(callback)?;
        let batch = reading::json(&callback.body)?;
        let events = batch
            .as_array()
            .ok_or_else(|| not_understood("the body is not a list of events"))?;
        Ok(events.iter().filter_map(read).collect())
    }
}
