//! The way out that leads nowhere: mail is kept in the dev inbox instead of sent.
//!
//! It passes the gate like any other transport, so that an email that is captured goes through
//! the same life as one that is sent. It must never talk to the network.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Captured, Gate, Outgoing, SharedStore, StoreResult, Transport};
use posthaste_core::reply::Reply;

/// Keeps mail in the store's inbox instead of sending it.
pub struct CaptureTransport {
    inbox: Arc<dyn Inbox>,
}

impl CaptureTransport {
    /// A transport that captures into this store.
    #[must_use]
    pub fn new(store: SharedStore) -> Self {
        Self {
            inbox: Arc::new(StoreInbox(store)),
        }
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
                captured_at: self.inbox.now(),
                from: email.from.to_string(),
                recipients: email.recipients.iter().map(ToString::to_string).collect(),
                content: email.content.clone(),
            };
            match self.inbox.capture(captured).await {
                Ok(()) => RecipientResult::Accepted(Reply::new(250, "2.0.0 captured").into()),
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
        match self.inbox.check().await {
            Ok(()) => Ok("mail is captured in the dev inbox, not sent".to_owned()),
            Err(error) => Err(format!("captured mail cannot be kept: {error}")),
        }
    }

    async fn close(&self) {}
}

fn failed(stage: Stage, cause: Cause) -> RecipientResult {
    RecipientResult::Failed(Failure::new(stage, cause))
}

/// The little of a store that is needed here.
#[async_trait]
trait Inbox: Send + Sync {
    fn now(&self) -> Timestamp;
    async fn capture(&self, captured: Captured) -> StoreResult<()>;
    async fn check(&self) -> StoreResult<()>;
}

struct StoreInbox(SharedStore);

#[async_trait]
impl Inbox for StoreInbox {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn capture(&self, captured: Captured) -> StoreResult<()> {
        self.0.capture(captured).await
    }

    async fn check(&self) -> StoreResult<()> {
        self.0.check().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use posthaste_core::address::Address;
    use posthaste_core::email::EmailId;
    use posthaste_core::port::StoreError;

    use super::*;

    #[derive(Default)]
    struct FakeInbox {
        captured: Mutex<Vec<Captured>>,
        is_down: bool,
    }

    #[async_trait]
    impl Inbox for FakeInbox {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        async fn capture(&self, captured: Captured) -> StoreResult<()> {
            self.check().await?;
            self.captured.lock().unwrap().push(captured);
            Ok(())
        }

        async fn check(&self) -> StoreResult<()> {
            if self.is_down {
                return Err(StoreError::Unavailable("down".to_owned()));
            }
            Ok(())
        }
    }

    struct FixedGate(bool);

    #[async_trait]
    impl Gate for FixedGate {
        async fn pass(&self) -> bool {
            self.0
        }
    }

    fn transport(is_down: bool) -> (CaptureTransport, Arc<FakeInbox>) {
        let inbox = Arc::new(FakeInbox {
            is_down,
            ..FakeInbox::default()
        });
        let transport = CaptureTransport {
            inbox: inbox.clone(),
        };
        (transport, inbox)
    }

    fn email() -> Outgoing {
        Outgoing {
            email_id: EmailId::generate(),
            attempt_number: 1,
            from: Address::parse("ann@example.org").unwrap(),
            recipients: ["a@example.org", "b@example.org"]
                .map(|address| Address::parse(address).unwrap())
                .to_vec(),
            content: Bytes::from_static(b"Subject: hello\r\n\r\nHello.\r\n"),
        }
    }

    #[tokio::test]
    async fn a_captured_email_is_kept_and_counts_as_accepted() {
        let (transport, inbox) = transport(false);
        let email = email();
        let results = transport.send(&email, &FixedGate(true)).await;
        let reply = Reply::parse_line("250 2.0.0 captured").unwrap();
        assert_eq!(results, vec![RecipientResult::Accepted(reply.into()); 2]);
        let captured = inbox.captured.lock().unwrap();
        assert_eq!(captured.len(), 1);
        assert_eq!(captured[0].email_id, email.email_id);
        assert_eq!(captured[0].captured_at, Timestamp::UNIX_EPOCH);
        assert_eq!(captured[0].from, "ann@example.org");
        assert_eq!(captured[0].recipients, ["a@example.org", "b@example.org"]);
        assert_eq!(captured[0].content, email.content);
    }

    #[tokio::test]
    async fn nothing_is_captured_after_a_lost_lease() {
        let (transport, inbox) = transport(false);
        let results = transport.send(&email(), &FixedGate(false)).await;
        assert_eq!(results, vec![failed(Stage::Gate, Cause::LeaseLost); 2]);
        assert!(inbox.captured.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_store_that_fails_after_the_gate_leaves_the_fate_unknown() {
        let (transport, _inbox) = transport(true);
        let results = transport.send(&email(), &FixedGate(true)).await;
        let cause = Cause::Io("the store is not available: down".to_owned());
        assert_eq!(results, vec![failed(Stage::FinalDot, cause); 2]);
        assert!(transport.check().await.is_err());
    }
}
