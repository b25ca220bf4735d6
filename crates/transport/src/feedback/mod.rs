//! What providers post to us about emails they took: delivered, bounced, called spam.
//!
//! Anyone can post to a public address, so nothing is read before it is believed: the signature
//! (or, where a provider has none, the password), the account and the age are checked first, and
//! secrets are compared in constant time. What does not concern an email's fate (opens, clicks,
//! delays, soft bounces) is left out. Nothing here decides what becomes of the email.
//!
//! One file per provider; `evidence` holds what they share of checking, `reading` of reading.

mod certificate;
mod config;
mod evidence;
mod mailgun;
mod postmark;
mod reading;
mod resend;
mod sendgrid;
mod ses;
mod sns;

use std::sync::Arc;

use posthaste_core::port::FeedbackReader;

pub use certificate::{CertificateSource, WebSource};
pub use config::{FeedbackConfig, FeedbackConfigError};

/// The name under which our own id travels with an email: a tag, custom argument, variable or
/// metadata field, whatever the provider calls it.
pub const ID_FIELD: &str = "posthaste_id";

/// A reader of what this provider posts. Certificates are fetched from the web when needed.
pub fn reader(config: FeedbackConfig) -> Result<Arc<dyn FeedbackReader>, FeedbackConfigError> {
    match config {
        FeedbackConfig::Ses { .. } => reader_with(config, Arc::new(WebSource::new()?)),
        _ => reader_with(config, Arc::new(certificate::NoSource)),
    }
}

/// The same with another way to the web; only Amazon's messages need one.
pub fn reader_with(
    config: FeedbackConfig,
    source: Arc<dyn CertificateSource>,
) -> Result<Arc<dyn FeedbackReader>, FeedbackConfigError> {
    Ok(match config {
        FeedbackConfig::Resend { secret } => Arc::new(resend::Resend::new(&secret)?),
        FeedbackConfig::SendGrid { public_key } => Arc::new(sendgrid::SendGrid::new(&public_key)?),
        FeedbackConfig::Postmark {
            username,
            password,
            server_id,
        } => Arc::new(postmark::Postmark::new(&username, &password, server_id)?),
        FeedbackConfig::Mailgun {
            signing_key,
            domain,
        } => Arc::new(mailgun::Mailgun::new(&signing_key, domain)?),
        FeedbackConfig::Ses { topic_arn } => Arc::new(ses::Ses::new(&topic_arn, source)?),
    })
}
