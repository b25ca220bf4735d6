//! Postmark, which signs nothing: it proves itself by a user and a password in the webhook's
//! address. So there is no age to check either.

use async_trait::async_trait;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::evidence::{self, header, not_believed};
use super::reading::{self, Message, first_text, needed, text};
use super::{FeedbackConfigError, ID_FIELD};

pub(super) struct Postmark {
    /// The hash of `user:password`: comparing hashes does not even tell the length.
    credentials: [u8; 32],
    server_id: Option<u64>,
}

impl Postmark {
    pub(super) fn new(
        username: &str,
        password: &SecretString,
        server_id: Option<u64>,
    ) -> Result<Self, FeedbackConfigError> {
        let password = password.expose_secret();
        if username.is_empty() {
            return Err(FeedbackConfigError::Empty("username"));
        }
        if username.contains(':') {
            return Err(FeedbackConfigError::Username);
        }
        if password.is_empty() {
            return Err(FeedbackConfigError::Empty("password"));
        }
        Ok(Self {
            credentials: evidence::sha256(format!("{username}:{password}").as_bytes()),
            server_id,
        })
    }

    fn believe(&self, callback: &Callback) -> Result<(), CallbackError> {
        let given = header(callback, "authorization")?;
        let credentials = match given.split_once(' ') {
            Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
                evidence::base64(encoded)
            }
            _ => None,
        };
        let is_ours = |given: Vec<u8>| evidence::same(&evidence::sha256(&given), &self.credentials);
        if credentials.is_some_and(is_ours) {
            Ok(())
        } else {
            Err(not_believed(
                "user or password is wrong; check `username` and `password`",
            ))
        }
    }

    /// The account: the Postmark server, whose id is spelled in two ways.
    fn believe_server(&self, event: &Value) -> Result<(), CallbackError> {
        let Some(expected) = self.server_id else {
            return Ok(());
        };
        let said = event.get("ServerID").or_else(|| event.get("ServerId"));
        if said.and_then(Value::as_u64) == Some(expected) {
            Ok(())
        } else {
            Err(not_believed(
                "the event is of another Postmark server; check `server_id`",
            ))
        }
    }
}

fn read(event: &Value) -> Result<Vec<ProviderEvent>, CallbackError> {
    let kind = needed(event, "/RecordType")?;
    let Some(happening) = happening(event, kind) else {
        return Ok(Vec::new());
    };
    // A suppression made by hand belongs to no message.
    let provider_id = match text(event, "/MessageID") {
        None if kind == "SubscriptionChange" => return Ok(Vec::new()),
        _ => needed(event, "/MessageID")?,
    };
    let message = Message {
        happening,
        provider_id,
        email_id: reading::email_id(text(event, &format!("/Metadata/{ID_FIELD}"))),
    };
    let recipient = match first_text(event, &["/Recipient", "/Email"]) {
        Some(recipient) => recipient,
        None => needed(event, "/Recipient")?,
    };
    let words = first_text(event, &["/Details", "/Description", "/SuppressionReason"]);
    Ok(message.about(recipient, words).into_iter().collect())
}

fn happening(event: &Value, kind: &str) -> Option<Happening> {
    let of_address = |reason| match reason {
        "HardBounce" | "BadEmailAddress" => Some(Happening::Bounced),
        "SpamComplaint" => Some(Happening::Complained),
        _ => None,
    };
    match kind {
        "Delivery" => Some(Happening::Delivered),
        "Bounce" => of_address(text(event, "/Type")?),
        "SpamComplaint" => Some(Happening::Complained),
        // The same bounce or complaint once more, for those who listen to this only.
        "SubscriptionChange" if event.get("SuppressSending") == Some(&Value::Bool(true)) => {
            of_address(text(event, "/SuppressionReason")?)
        }
        _ => None,
    }
}

#[async_trait]
impl FeedbackReader for Postmark {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        self.believe(callback)?;
        let event = reading::json(&callback.body)?;
        self.believe_server(&event)?;
        read(&event)
    }
}
