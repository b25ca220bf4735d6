//! The way out that leads nowhere: mail is kept in the dev inbox instead of sent.
//!
//! It passes the gate like any other transport, so that an email that is captured goes through
//! the same life as one that is sent. It must never talk to the network.

use async_trait::async_trait;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Captured, Gate, Outgoing, SharedStore, Transport};
use posthaste_core::reply::Reply;

/// Keeps mail in the store's inbox instead of sending it.
pub struct CaptureTransport {
    store: SharedStore,
}

impl CaptureTransport {
    /// A transport that captures into this store.
    #[must_use]
    pub fn new(store: SharedStore) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Transport for CaptureTransport {
    fn name(&self) -> &str {
        "capture"
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        let result = if gate.pass().await {
            let captured = Captured {
                email_id: email.email_id,
                captured_at: self.store.now(),
                from: email.from.to_string(),
                recipients: email.recipients.iter().map(ToString::to_string).collect(),
                content: email.content.clone(),
            };
            match self.store.capture(captured).await {
                Ok(()) => RecipientResult::Accepted(Reply::new(250, "2.0.0 captured")),
                // The commit may have happened although its answer was lost: as uncertain as a
                // final dot without a reply.
                Err(error) => failed(Stage::FinalDot, Cause::Io(error.to_string())),
            }
        } else {
            failed(Stage::Gate, Cause::LeaseLost)
        };
        vec![result; email.recipients.len()]
    }

    async fn check(&self) -> Result<String, String> {
        match self.store.check().await {
            Ok(()) => Ok("mail is captured in the dev inbox, not sent".to_owned()),
            Err(error) => Err(format!("captured mail cannot be kept: {error}")),
        }
    }

    async fn close(&self) {}
}

fn failed(stage: Stage, cause: Cause) -> RecipientResult {
    RecipientResult::Failed(Failure::new(stage, cause))
}
