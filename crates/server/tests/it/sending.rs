//! A server that also sends, while callers wait. What its mail server says, the test decides.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Gate, NoTracer, Outgoing, SharedStore, Transport};
use posthaste_core::reply::Reply;
use posthaste_engine::metrics::Source;
use posthaste_engine::sender::{Sender, SenderConfig, SenderParts};
use posthaste_engine::{Intake, Policies, Ways};
use posthaste_server::{Limits, ServerParts};
use posthaste_store::SqliteStore;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::fixture::{Server, parts};

/// More than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// An attempt that has reached the mail server, which has not said anything yet.
pub(crate) struct Attempt {
    /// Which email.
    pub(crate) id: String,
    answer: oneshot::Sender<Option<Reply>>,
}

impl Attempt {
    /// The mail server takes the email.
    pub(crate) fn accept(self) {
        self.answer.send(None).unwrap();
    }

    /// The mail server refuses the recipients.
    pub(crate) fn refuse(self, code: u16, text: &str) {
        self.answer.send(Some(Reply::new(code, text))).unwrap();
    }
}

struct ScriptedTransport {
    attempts: mpsc::UnboundedSender<Attempt>,
}

#[async_trait]
impl Transport for ScriptedTransport {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        let (answer, answered) = oneshot::channel();
        let id = email.email_id.to_string();
        self.attempts.send(Attempt { id, answer }).ok();
        let failed = |stage, cause| RecipientResult::Failed(Failure::new(stage, cause));
        let one = match answered.await.expect("the test answers") {
            Some(refusal) => failed(Stage::Recipient, Cause::Reply(refusal)),
            None if gate.pass().await => {
                RecipientResult::Accepted(Reply::new(250, "2.0.0 OK").into())
            }
            None => failed(Stage::FinalDot, Cause::LeaseLost),
        };
        vec![one; email.recipients.len()]
    }

    async fn check(&self) -> Result<String, String> {
        Ok("scripted".into())
    }

    async fn close(&self) {}
}

/// An intake that sends by the transport what callers wait for.
fn sending_intake(
    parts: &ServerParts,
    store: &Arc<SqliteStore>,
    transport: ScriptedTransport,
) -> Intake {
    let store: SharedStore = store.clone();
    let policies = Arc::new(Policies::default());
    let wake = Arc::new(Notify::new());
    let sender = Sender::new(
        SenderParts {
            store: Arc::clone(&store),
            broker: parts.broker.clone(),
            ways: Arc::new(Ways::single(Arc::new(transport), 4)),
            policies: Arc::clone(&policies),
            classifier: Classifier::default(),
            metrics: Arc::clone(&parts.metrics),
            scheduler: Arc::clone(&wake),
            tracer: Arc::new(NoTracer),
        },
        SenderConfig {
            worker: "worker".into(),
            connections: 4,
            lease: LONG,
            backstop: LONG,
            takes_waiting: false,
            patience: LONG,
            removes_sent: false,
        },
    );
    let (broker, metrics) = (parts.broker.clone(), Some(Arc::clone(&parts.metrics)));
    Intake::new(store, broker, policies, metrics, wake, Source::Api).sending_by(Some(sender))
}

impl Server {
    /// A server with a sender, and the attempts that reach the mail server.
    pub(crate) fn start_sending() -> (Arc<Self>, mpsc::UnboundedReceiver<Attempt>) {
        let (mut parts, store, transport, folder) = parts(Limits::default());
        let (attempts, reached) = mpsc::unbounded_channel();
        let intake = sending_intake(&parts, &store, ScriptedTransport { attempts });
        parts.intake = Arc::new(intake);
        let server = Self::made(parts, posthaste_server::router, store, transport, folder);
        (Arc::new(server), reached)
    }
}
