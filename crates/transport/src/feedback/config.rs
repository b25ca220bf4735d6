//! What each provider's reader must be told. A secret never shows in `Debug` or in an error.

use secrecy::SecretString;

/// Which provider posts, and how it proves to be that one.
#[derive(Debug, Clone)]
pub enum FeedbackConfig {
    /// Resend, signed as Standard Webhooks are. Nothing in its events names the account: the
    /// secret is the account.
    Resend {
        /// The webhook's signing secret, `whsec_…`.
        secret: SecretString,
    },
    /// SendGrid's signed event webhook.
    SendGrid {
        /// The webhook's verification key: base64 of a P-256 public key in DER.
        public_key: String,
    },
    /// Postmark, which signs nothing.
    Postmark {
        /// The user in the webhook's address.
        username: String,
        /// The password in the webhook's address.
        password: SecretString,
        /// The Postmark server whose events are expected; `None` for any.
        server_id: Option<u64>,
    },
    /// Mailgun.
    Mailgun {
        /// The account's HTTP webhook signing key.
        signing_key: SecretString,
        /// The sending domain whose events are expected; `None` for any of the account.
        domain: Option<String>,
    },
    /// Amazon SES, which publishes to a topic of Amazon SNS.
    Ses {
        /// The topic, `arn:aws:sns:<region>:<account>:<name>`.
        topic_arn: String,
    },
}

/// Why a reader cannot be made. Names the field and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeedbackConfigError {
    /// A field is empty that must not be.
    #[error("`{0}` is empty; copy it from the provider's webhook settings")]
    Empty(&'static str),
    /// Resend's secret cannot be one.
    #[error("`secret` is not a webhook secret; it is `whsec_` and base64 of at least 16 bytes")]
    Secret,
    /// SendGrid's key cannot be one.
    #[error("`public_key` is not a verification key; it is base64 of a P-256 public key in DER")]
    PublicKey,
    /// A colon in the user's name would end it early.
    #[error("`username` contains a colon; basic authentication does not allow one")]
    Username,
    /// Amazon's topic cannot be one.
    #[error("`topic_arn` is not a topic; write it as arn:aws:sns:<region>:<account>:<name>")]
    TopicArn,
    /// There is no way to fetch Amazon's certificates.
    #[error("certificates of `topic_arn` cannot be fetched: {0}")]
    Web(String),
}
