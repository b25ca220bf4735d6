//! The ways out.

use async_trait::async_trait;
use bytes::Bytes;

use crate::Timestamp;
use crate::address::Address;
use crate::decision::RecipientResult;
use crate::email::EmailId;
use crate::feedback::ProviderEvent;

/// An email on its way out.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Which email.
    pub email_id: EmailId,
    /// The number of this attempt.
    pub attempt_number: u32,
    /// The return path.
    pub from: Address,
    /// Those who have not yet accepted it.
    pub recipients: Vec<Address>,
    /// The finished MIME message.
    pub content: Bytes,
}

/// Stands between "cannot have left" and "may have left".
#[async_trait]
pub trait Gate: Send + Sync {
    /// Commits that the message is about to leave. Only after `true` may the final dot (or the
    /// provider's request) be sent; after `false` it must not be.
    async fn pass(&self) -> bool;

    /// Says that the other side is being talked to, and that from now on it is the one who takes
    /// time. Before, the email may have waited for a connection.
    fn talks(&self) {}
}

/// A way out.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Its name in records and metrics.
    fn name(&self) -> &str;

    /// Makes one attempt. The answer has one result per recipient, in their order. It never
    /// panics and always ends: every wait inside has a deadline.
    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult>;

    /// Says whether the way out works, without sending anything: for `doctor` and `/readyz`.
    async fn check(&self) -> Result<String, String>;

    /// Closes idle connections.
    async fn close(&self);
}

/// What a provider posted to us.
#[derive(Debug, Clone)]
pub struct Callback {
    /// Header names in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte: signatures are about bytes.
    pub body: Bytes,
    /// When it came.
    pub at: Timestamp,
}

impl Callback {
    /// The first value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        values.next().map(|(_, value)| value.as_str())
    }
}

/// Why what a provider posted is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// The signature, the account or the time is wrong.
    #[error("{0}")]
    NotBelieved(String),
    /// It is genuine, but cannot be read.
    #[error("{0}")]
    NotUnderstood(String),
    /// It cannot be checked just now.
    #[error("{0}")]
    TryLater(String),
}

/// Reads what one provider posts about emails that one transport sent.
#[async_trait]
pub trait FeedbackReader: Send + Sync {
    /// Checks signature, account and age, and reads what it says. What does not concern us (opens,
    /// clicks, delays) is left out.
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError>;
}

/// What is known of a recipient's domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainVerdict {
    /// It takes mail, as far as anyone can tell. A resolver that fails is no verdict either.
    Takes,
    /// It does not exist, or says that it takes no mail.
    TakesNone,
}

/// Looks up whether domains take mail.
#[async_trait]
pub trait Domains: Send + Sync {
    /// What is known of this domain. It always ends: every wait inside has a deadline.
    async fn look_up(&self, domain: &str) -> DomainVerdict;
}
