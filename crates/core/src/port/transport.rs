//! The ways out.

use async_trait::async_trait;
use bytes::Bytes;

use crate::address::Address;
use crate::decision::RecipientResult;
use crate::email::EmailId;

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
