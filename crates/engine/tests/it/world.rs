//! A store on a manual clock, the in-process queue, and a transport that does as it is told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_broker::InProcessBroker;
use posthaste_core::classification::Classifier;
use posthaste_core::decision::RecipientResult;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{Broker, Gate, NoTracer, Outgoing, SharedStore, Transport};
use posthaste_core::reply::Reply;
use posthaste_core::status::Status;
use posthaste_core::way::BreakerRules;
use posthaste_engine::intake::{EmailRequest, Submitter, Taken};
use posthaste_engine::metrics::{Metrics, Source};
use posthaste_engine::rescuer::Rescuer;
use posthaste_engine::scheduler::Scheduler;
use posthaste_engine::sender::{Sender, SenderConfig, SenderParts};
use posthaste_engine::{Intake, Operator, Policies, WayParts, Ways, WaysConfig};
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::ManualClock;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The lease in these tests. Real time never gets that far; the manual clock does.
pub(crate) const LEASE: Duration = Duration::from_secs(120);

/// How many connections there are; domains get all of them.
const NARROW: usize = 4;
const WIDE: usize = 16;

/// What a test does with an attempt that has reached the transport.
pub(crate) struct AtTransport {
    /// Which transport.
    pub(crate) transport: String,
    /// What is to be sent.
    pub(crate) email: Outgoing,
    /// `true`: ask the gate. Answered with what it said.
    pub(crate) ask_gate: oneshot::Sender<oneshot::Sender<bool>>,
    /// Ends the attempt.
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// How the transport ends.
pub(crate) enum Answer {
    /// 250 for everyone.
    Accepted,
    /// This for everyone.
    Results(RecipientResult),
    /// A bug.
    Panic,
}

/// A way out that nobody takes.
pub(crate) struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    fn name(&self) -> &str {
        "none"
    }

    async fn send(&self, _: &Outgoing, _: &dyn Gate) -> Vec<RecipientResult> {
        unreachable!("nothing is sent")
    }

    async fn check(&self) -> Result<String, String> {
        Ok("none".into())
    }

    async fn close(&self) {}
}

struct ScriptedTransport {
    name: &'static str,
    attempts: mpsc::UnboundedSender<AtTransport>,
}

#[async_trait]
impl Transport for ScriptedTransport {
    fn name(&self) -> &str {
        self.name
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        let (ask_gate, asked) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        self.attempts
            .send(AtTransport {
                transport: self.name.to_owned(),
                email: email.clone(),
                ask_gate,
                answer,
            })
            .ok();
        if let Ok(tell) = asked.await {
            tell.send(gate.pass().await).ok();
        }
        let one = match answered.await.expect("the test answers") {
            Answer::Accepted => RecipientResult::Accepted(Reply::new(250, "2.0.0 OK").into()),
            Answer::Results(result) => result,
            Answer::Panic => panic!("as the test asked"),
        };
        email.recipients.iter().map(|_| one.clone()).collect()
    }

    async fn check(&self) -> Result<String, String> {
        Ok("scripted".into())
    }

    async fn close(&self) {}
}

/// Everything a test works with.
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: SharedStore,
    pub(crate) broker: Arc<InProcessBroker>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) scheduler: Scheduler,
    pub(crate) rescuer: Rescuer,
    pub(crate) operator: Operator,
    pub(crate) registry: Registry,
    pub(crate) attempts: mpsc::UnboundedReceiver<AtTransport>,
    sender: Arc<Sender>,
    /// The sender while it runs, and what stops it.
    running: Option<(JoinHandle<()>, CancellationToken)>,
    _folder: tempfile::TempDir,
}

impl World {
    /// A world with these policies and room for this many tickets.
    pub(crate) fn with(policies: Policies, capacity: usize) -> Self {
        let ways = Self::ways_of(&["scripted"]);
        Self::made(policies, capacity, Duration::from_secs(3600), ways)
    }

    /// A world with these transports in this order and these rules for their breakers. Callers wait
    /// for ever.
    pub(crate) fn with_ways(
        policies: Policies,
        names: &[&'static str],
        breaker: BreakerRules,
    ) -> Self {
        let (mut config, reached) = Self::ways_of(names);
        config.breaker = Some(breaker);
        config.connections = 4 * WIDE;
        let patience = Duration::from_secs(3600);
        Self::made(policies, 1000, patience, (config, reached))
    }

    /// Transports of these names, in this order, without breakers.
    fn ways_of(names: &[&'static str]) -> (WaysConfig, mpsc::UnboundedReceiver<AtTransport>) {
        let (attempts, reached) = mpsc::unbounded_channel();
        let way = |name: &&'static str| -> WayParts {
            let transport: Arc<dyn Transport> = Arc::new(ScriptedTransport {
                name,
                attempts: attempts.clone(),
            });
            transport.into()
        };
        let config = WaysConfig {
            transports: names.iter().map(way).collect(),
            connections: 4 * NARROW,
            ..WaysConfig::default()
        };
        (config, reached)
    }

    /// A world in which callers wait for so long and no longer.
    pub(crate) fn with_patience(patience: Duration) -> Self {
        let ways = Self::ways_of(&["scripted"]);
        Self::made(Policies::default(), 1000, patience, ways)
    }

    fn made(
        policies: Policies,
        capacity: usize,
        patience: Duration,
        (ways, reached): (WaysConfig, mpsc::UnboundedReceiver<AtTransport>),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::default());
        let mut options = SqliteOptions::new(folder.path().join("posthaste.db"));
        options.clock = Arc::<ManualClock>::clone(&clock);
        let store: SharedStore = Arc::new(SqliteStore::open(options).unwrap());
        let broker = Arc::new(InProcessBroker::new(capacity));
        let shared_broker: Arc<dyn Broker> = Arc::<InProcessBroker>::clone(&broker);
        let policies = Arc::new(policies);
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry, &["scripted"]));
        let wake = Arc::new(Notify::new());
        let places = ways.connections / 4;
        let ways = Arc::new(Ways::new(ways));
        let sender = Sender::new(
            SenderParts {
                store: Arc::clone(&store),
                broker: Some(Arc::clone(&shared_broker)),
                ways: Arc::clone(&ways),
                policies: Arc::clone(&policies),
                classifier: Classifier::default(),
                metrics: Arc::clone(&metrics),
                scheduler: Arc::clone(&wake),
                tracer: Arc::new(NoTracer),
            },
            SenderConfig {
                worker: "worker".into(),
                connections: places,
                lease: LEASE,
                backstop: Duration::from_secs(3600),
                takes_waiting: true,
                patience,
                removes_sent: false,
            },
        );
        let operator = Operator::new(Arc::clone(&store), Arc::clone(&policies), Arc::clone(&wake))
            .sending_by(ways);
        let intake = Intake::new(
            Arc::clone(&store),
            Some(Arc::clone(&shared_broker)),
            Arc::clone(&policies),
            Some(Arc::clone(&metrics)),
            Arc::clone(&wake),
            Source::Api,
        );
        let intake = Arc::new(intake.sending_by(Some(Arc::clone(&sender))));
        let scheduler = Scheduler::new(
            Arc::clone(&store),
            shared_broker,
            Arc::clone(&policies),
            Arc::clone(&metrics),
            LEASE,
            Duration::from_secs(60),
        );
        let rescuer = Rescuer::new(Arc::clone(&store), policies, metrics, wake, LEASE);
        Self {
            clock,
            store,
            broker,
            intake,
            scheduler,
            rescuer,
            operator,
            registry,
            attempts: reached,
            sender,
            running: None,
            _folder: folder,
        }
    }

    /// A world with the default policies.
    pub(crate) fn new() -> Self {
        Self::with(Policies::default(), 1000)
    }

    /// Lets the sender run, also after it was stopped.
    pub(crate) fn start_sender(&mut self) {
        let (sender, shutdown) = (Arc::clone(&self.sender), CancellationToken::new());
        let running = tokio::spawn(sender.run(shutdown.clone(), Duration::from_secs(3600)));
        assert!(self.running.replace((running, shutdown)).is_none());
    }

    /// Stops the sender, which has nothing under way. As long as it runs it looks for what is due
    /// by itself now and then, and may be faster than the test.
    pub(crate) async fn stop_sender(&mut self) {
        let (running, shutdown) = self.running.take().expect("it runs");
        shutdown.cancel();
        running.await.unwrap();
    }

    /// Takes an email in.
    pub(crate) async fn accept(&self, request: EmailRequest) -> EmailId {
        match self.try_accept(request).await {
            Ok(Taken::Accepted { id, .. }) => id,
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// Takes an email in, or not.
    pub(crate) async fn try_accept(
        &self,
        request: EmailRequest,
    ) -> Result<Taken, posthaste_engine::intake::Refused> {
        let submitter = Submitter {
            owner: "default".into(),
            from_addresses: Vec::new(),
        };
        self.intake
            .take(&submitter, vec![request])
            .await
            .pop()
            .unwrap()
    }

    /// An email as it is now.
    pub(crate) async fn email(&self, id: EmailId) -> EmailRecord {
        self.store.find(id).await.unwrap().unwrap()
    }

    /// Waits until an email is in this state.
    pub(crate) async fn until(&self, id: EmailId, status: Status) -> EmailRecord {
        loop {
            let email = self.email(id).await;
            if email.state.status == status {
                return email;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next attempt that reaches the transport.
    pub(crate) async fn next_attempt(&mut self) -> AtTransport {
        self.attempts.recv().await.expect("the sender runs")
    }

    /// The value of a metric line, for example `posthaste_dead_total{reason="Poison"}`.
    pub(crate) fn metric(&self, line: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let found = text
            .lines()
            .find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    /// Every promise holds.
    pub(crate) async fn verify(&self) {
        let violations = self.store.verify(&[]).await.unwrap();
        assert!(violations.is_empty(), "{violations:?}");
    }
}

/// A request that is fine.
pub(crate) fn a_request() -> EmailRequest {
    EmailRequest {
        from: "app@example.org".into(),
        to: vec!["ann@example.org".into()],
        subject: "Hello".into(),
        text: Some("It works.".into()),
        ..EmailRequest::default()
    }
}

impl AtTransport {
    /// Asks the gate and says what it answered.
    pub(crate) async fn gate(self) -> (bool, oneshot::Sender<Answer>) {
        let (tell, told) = oneshot::channel();
        assert!(self.ask_gate.send(tell).is_ok(), "the transport waits");
        (told.await.unwrap(), self.answer)
    }

    /// Ends the attempt without asking the gate.
    pub(crate) fn end(self, answer: Answer) {
        drop(self.ask_gate);
        assert!(self.answer.send(answer).is_ok(), "the transport waits");
    }
}
