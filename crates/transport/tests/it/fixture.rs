//! Emails, gates and transports for the tests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Gate, Outgoing};
use posthaste_core::reply::Reply;
use posthaste_transport::{SmtpConfig, SmtpTransport, TlsMode};
use tokio::sync::oneshot;

pub(crate) const CONTENT: &[u8] = b"Subject: hello\r\n\r\nHello.\r\n";

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn email(recipients: &[&str]) -> Outgoing {
    email_with(recipients, CONTENT)
}

pub(crate) fn email_with(recipients: &[&str], content: &[u8]) -> Outgoing {
    Outgoing {
        email_id: EmailId::generate(),
        attempt_number: 1,
        from: Address::parse("ann@example.org").unwrap(),
        recipients: recipients
            .iter()
            .map(|address| Address::parse(address).unwrap())
            .collect(),
        content: Bytes::copy_from_slice(content),
    }
}

pub(crate) fn config(port: u16) -> SmtpConfig {
    let mut config = SmtpConfig::new("127.0.0.1", port);
    config.tls = TlsMode::None;
    config.client_name = Some("client.test".to_owned());
    config
}

pub(crate) fn transport(port: u16) -> SmtpTransport {
    SmtpTransport::new(config(port)).unwrap()
}

pub(crate) fn accepted(text: &str) -> RecipientResult {
    RecipientResult::Accepted(Reply::parse_line(text).unwrap().into())
}

pub(crate) fn refused(stage: Stage, text: &str) -> RecipientResult {
    failed(stage, Cause::Reply(Reply::parse_line(text).unwrap()))
}

pub(crate) fn failed(stage: Stage, cause: Cause) -> RecipientResult {
    RecipientResult::Failed(Failure::new(stage, cause))
}

pub(crate) fn protocol_broken_at(result: &RecipientResult) -> Option<Stage> {
    match result {
        RecipientResult::Failed(failure) if matches!(failure.cause, Cause::Protocol(_)) => {
            Some(failure.stage)
        }
        _ => None,
    }
}

pub(crate) fn tls_failed_at(result: &RecipientResult) -> Option<Stage> {
    match result {
        RecipientResult::Failed(failure) if matches!(failure.cause, Cause::Tls(_)) => {
            Some(failure.stage)
        }
        _ => None,
    }
}

/// Always open.
pub(crate) struct AlwaysOpen;

#[async_trait]
impl Gate for AlwaysOpen {
    async fn pass(&self) -> bool {
        true
    }
}

/// Always open to whoever said that it talks; counts how often it was passed.
#[derive(Default)]
pub(crate) struct OpenGate {
    talks: AtomicBool,
    passed: AtomicU32,
}

impl OpenGate {
    pub(crate) fn passed(&self) -> u32 {
        self.passed.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Gate for OpenGate {
    fn talks(&self) {
        self.talks.store(true, Ordering::SeqCst);
    }

    async fn pass(&self) -> bool {
        assert!(self.talks.load(Ordering::SeqCst), "nobody talks yet");
        self.passed.fetch_add(1, Ordering::SeqCst);
        true
    }
}

/// The lease is lost.
pub(crate) struct ShutGate;

#[async_trait]
impl Gate for ShutGate {
    async fn pass(&self) -> bool {
        false
    }
}

/// Says when it was reached, and answers what the test says.
pub(crate) struct HeldGate {
    reached: Mutex<Option<oneshot::Sender<()>>>,
    answer: Mutex<Option<oneshot::Receiver<bool>>>,
}

impl HeldGate {
    pub(crate) fn new() -> (Self, oneshot::Receiver<()>, oneshot::Sender<bool>) {
        let (reached, when_reached) = oneshot::channel();
        let (answer, when_answered) = oneshot::channel();
        let gate = Self {
            reached: Mutex::new(Some(reached)),
            answer: Mutex::new(Some(when_answered)),
        };
        (gate, when_reached, answer)
    }
}

#[async_trait]
impl Gate for HeldGate {
    async fn pass(&self) -> bool {
        let reached = self.reached.lock().unwrap().take().unwrap();
        let answer = self.answer.lock().unwrap().take().unwrap();
        reached.send(()).unwrap();
        answer.await.unwrap()
    }
}
