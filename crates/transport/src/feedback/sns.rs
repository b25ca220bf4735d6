//! Amazon SNS: the envelope in which a topic's messages come, and whether it is genuine.

use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::port::{Callback, CallbackError};
use serde_json::Value;

use super::FeedbackConfigError;
use super::certificate::{CertificateSource, Certificates, SignatureVersion};
use super::evidence::{self, not_believed};
use super::reading::{needed, text};

/// How old a message may be, in seconds: SNS repeats one for up to an hour with its first time.
const OLDEST: i64 = 60 * 60;

/// A topic whose messages are expected.
pub(super) struct Topic {
    arn: String,
    /// `https://sns.<region>.amazonaws.com/`: what every address in a message must begin with.
    /// Comparing the text leaves no room for tricks with users, ports or backslashes.
    origin: String,
    certificates: Certificates,
}

/// A message of the topic, its signature checked.
pub(super) enum Message<'a> {
    /// The topic asks whether we want its messages.
    Confirmation {
        /// Where to say yes.
        url: &'a str,
    },
    /// Something was published; this is its text.
    Notification(&'a str),
    /// Nothing that needs an answer.
    Other,
}

impl Topic {
    pub(super) fn new(
        arn: &str,
        source: Arc<dyn CertificateSource>,
    ) -> Result<Self, FeedbackConfigError> {
        let arn = arn.trim();
        if arn.is_empty() {
            return Err(FeedbackConfigError::Empty("topic_arn"));
        }
        let origin = origin(arn).ok_or(FeedbackConfigError::TopicArn)?;
        Ok(Self {
            arn: arn.to_owned(),
            origin,
            certificates: Certificates::new(source),
        })
    }

    /// Checks topic, age and signature, in this order: nothing is fetched for strangers.
    pub(super) async fn open<'a>(
        &self,
        callback: &Callback,
        envelope: &'a Value,
    ) -> Result<Message<'a>, CallbackError> {
        if text(envelope, "/TopicArn") != Some(&self.arn) {
            return Err(not_believed(
                "the message is of another topic; check `topic_arn`",
            ));
        }
        let time: Timestamp = text(envelope, "/Timestamp")
            .and_then(|time| time.parse().ok())
            .ok_or_else(|| not_believed("the message has no time"))?;
        evidence::check_age(time.as_second(), callback.at, OLDEST)?;
        self.check_signature(envelope).await?;
        match needed(envelope, "/Type")? {
            "Notification" => Ok(Message::Notification(needed(envelope, "/Message")?)),
            "SubscriptionConfirmation" => {
                let url = needed(envelope, "/SubscribeURL")?;
                if self.is_confirmation(url) {
                    Ok(Message::Confirmation { url })
                } else {
                    Err(not_believed(
                        "`SubscribeURL` is not an address of the topic",
                    ))
                }
            }
            _ => Ok(Message::Other),
        }
    }

    /// Says yes to a confirmation.
    pub(super) async fn confirm(&self, url: &str) -> Result<(), CallbackError> {
        let later = |why| CallbackError::TryLater(format!("Amazon took no confirmation: {why}"));
        self.certificates.visit(url).await.map_err(later)?;
        tracing::info!(topic = self.arn, "the subscription is confirmed");
        Ok(())
    }

    async fn check_signature(&self, envelope: &Value) -> Result<(), CallbackError> {
        let version = match text(envelope, "/SignatureVersion") {
            Some("1") => SignatureVersion::V1,
            Some("2") => SignatureVersion::V2,
            _ => return Err(not_believed("the version of the signature is not known")),
        };
        let signature = text(envelope, "/Signature").and_then(evidence::base64);
        let signature = signature.ok_or_else(|| not_believed("the message is not signed"))?;
        let signed = signed_text(envelope)
            .ok_or_else(|| not_believed("the message lacks a part that is signed"))?;
        let url = text(envelope, "/SigningCertURL").filter(|url| self.is_certificate(url));
        let url = url.ok_or_else(|| {
            not_believed("`SigningCertURL` is not a certificate of Amazon's in the topic's region")
        })?;
        let key = self.certificates.key(url).await?;
        if key.has_signed(version, signed.as_bytes(), &signature) {
            Ok(())
        } else {
            Err(not_believed("the signature does not fit"))
        }
    }

    /// A single file right below the root, so that no answer of Amazon's API can pass for one.
    fn is_certificate(&self, url: &str) -> bool {
        let file = url.strip_prefix(&self.origin);
        let name = file.and_then(|file| file.strip_suffix(".pem"));
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_plain))
    }

    fn is_confirmation(&self, url: &str) -> bool {
        let query = url.strip_prefix(&self.origin);
        query.is_some_and(|query| {
            query.starts_with("?Action=ConfirmSubscription&")
                && query.bytes().all(|c| c.is_ascii_graphic() && c != b'#')
        })
    }
}

/// The origin of Amazon's addresses for a topic, `arn:<partition>:sns:<region>:<account>:<name>`.
fn origin(arn: &str) -> Option<String> {
    let parts: Vec<&str> = arn.split(':').collect();
    let ["arn", partition, "sns", region, account, name] = parts.as_slice() else {
        return None;
    };
    let suffix = match *partition {
        "aws" | "aws-us-gov" => "amazonaws.com",
        "aws-cn" => "amazonaws.com.cn",
        _ => return None,
    };
    let is_label = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_region = !region.is_empty() && region.bytes().all(is_label);
    let is_account = account.len() == 12 && account.bytes().all(|c| c.is_ascii_digit());
    (is_region && is_account && !name.is_empty()).then(|| format!("https://sns.{region}.{suffix}/"))
}

/// What is signed: these fields in this order, each with its name on a line of its own.
fn signed_text(envelope: &Value) -> Option<String> {
    let fields: &[&str] = match text(envelope, "/Type")? {
        "Notification" => &[
            "Message",
            "MessageId",
            "Subject",
            "Timestamp",
            "TopicArn",
            "Type",
        ],
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => &[
            "Message",
            "MessageId",
            "SubscribeURL",
            "Timestamp",
            "Token",
            "TopicArn",
            "Type",
        ],
        _ => return None,
    };
    let mut signed = String::new();
    for field in fields {
        match envelope.get(field) {
            Some(Value::String(value)) => {
                signed.extend([field, "\n", value.as_str(), "\n"]);
            }
            None | Some(Value::Null) if *field == "Subject" => {}
            _ => return None,
        }
    }
    Some(signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_tells_where_its_certificates_are() {
        let cases = [
            (
                "arn:aws:sns:eu-west-1:123456789012:mail",
                Some("https://sns.eu-west-1.amazonaws.com/"),
            ),
            (
                "arn:aws-us-gov:sns:us-gov-west-1:123456789012:mail",
                Some("https://sns.us-gov-west-1.amazonaws.com/"),
            ),
            (
                "arn:aws-cn:sns:cn-north-1:123456789012:mail",
                Some("https://sns.cn-north-1.amazonaws.com.cn/"),
            ),
            ("arn:aws:sqs:eu-west-1:123456789012:mail", None),
            ("arn:aws:sns:eu-west-1:123456789012:", None),
            ("arn:aws:sns:eu-west-1:1234:mail", None),
            ("arn:aws:sns:evil.example/:123456789012:mail", None),
            ("arn:aws:sns::123456789012:mail", None),
            ("arn:other:sns:eu-west-1:123456789012:mail", None),
            ("mail", None),
        ];
        for (arn, expected) in cases {
            assert_eq!(origin(arn).as_deref(), expected, "{arn}");
        }
    }
}
