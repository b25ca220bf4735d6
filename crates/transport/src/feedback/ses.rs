//! Amazon SES: events and notifications about emails, published to a topic of SNS.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use serde_json::Value;

use super::certificate::CertificateSource;
use super::reading::{self, Message, first_text, needed, text};
use super::sns::{self, Topic};
use super::{FeedbackConfigError, ID_FIELD};

pub(super) struct Ses {
    topic: Topic,
}

impl Ses {
    pub(super) fn new(
        topic_arn: &str,
        source: Arc<dyn CertificateSource>,
    ) -> Result<Self, FeedbackConfigError> {
        let topic = Topic::new(topic_arn, source)?;
        Ok(Self { topic })
    }
}

/// The same under two names: `eventType` of a configuration set, `notificationType` of an
/// identity. Only the former carries our id.
fn read(event: &Value) -> Result<Vec<ProviderEvent>, CallbackError> {
    let Some(kind) = first_text(event, &["/eventType", "/notificationType"]) else {
        return Ok(Vec::new());
    };
    let (happening, recipients) = match kind {
        "Delivery" => (Happening::Delivered, "/delivery/recipients"),
        "Bounce" if text(event, "/bounce/bounceType") == Some("Permanent") => {
            (Happening::Bounced, "/bounce/bouncedRecipients")
        }
        "Complaint" if is_against_us(event) => {
            (Happening::Complained, "/complaint/complainedRecipients")
        }
        _ => return Ok(Vec::new()),
    };
    let message = Message {
        happening,
        provider_id: needed(event, "/mail/messageId")?,
        email_id: reading::email_id(text(event, &format!("/mail/tags/{ID_FIELD}/0"))),
    };
    let common = first_text(
        event,
        &[
            "/delivery/smtpResponse",
            "/complaint/complaintFeedbackType",
            "/bounce/bounceSubType",
        ],
    );
    let about = |recipient: &Value| {
        let address = recipient
            .as_str()
            .or_else(|| text(recipient, "/emailAddress"));
        let words = text(recipient, "/diagnosticCode").or(common);
        message.about(address?, words)
    };
    let recipients = reading::list(event, recipients).iter();
    Ok(recipients.filter_map(about).collect())
}

/// Reports also come to say that a message is not spam, or that its authentication failed.
fn is_against_us(event: &Value) -> bool {
    let kind = text(event, "/complaint/complaintFeedbackType");
    !matches!(kind, Some("not-spam" | "auth-failure"))
}

#[async_trait]
impl FeedbackReader for Ses {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        let envelope = reading::json(&callback.body)?;
        match self.topic.open(callback, &envelope).await? {
            sns::Message::Notification(published) => {
                // SES says hello to a new topic in plain words; they concern no email.
                match serde_json::from_str(published) {
                    Ok(event) => read(&event),
                    Err(_) => Ok(Vec::new()),
                }
            }
            sns::Message::Confirmation { url } => {
                self.topic.confirm(url).await?;
                Ok(Vec::new())
            }
            sns::Message::Other => Ok(Vec::new()),
        }
    }
}
