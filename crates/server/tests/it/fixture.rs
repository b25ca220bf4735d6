//! A server over a SQLite file of its own, without senders: emails stay as they are put.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode, request};
use posthaste_broker::InProcessBroker;
use posthaste_core::attempt::Stage;
use posthaste_core::decision::{Conclusion, Decision, RecipientResult};
use posthaste_core::email::EmailId;
use posthaste_core::port::{
    Actor, Begun, EmailStore, Finish, Gate, MessageBroker, Outgoing, SharedStore, Transport,
};
use posthaste_core::status::{DeadReason, Outcome};
use posthaste_core::way::BreakerRules;
use posthaste_engine::access::NewKey;
use posthaste_engine::metrics::Source;
use posthaste_engine::{
    Access, Admins, FeedbackDesk, Intake, MessageDesk, MessageMetrics, Metrics, Operator, Policies,
    Route, WayParts, Ways, WaysConfig,
};
use posthaste_server::{Limits, ServerParts, Setting};
use posthaste_store::{SqliteOptions, SqliteStore};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::ServiceExt as _;

use crate::provider::ScriptedReader;

const DATABASE: &str = "posthaste.db";
/// The proxy that is trusted.
pub(crate) const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// How long a login lasts.
pub(crate) const SESSION: Duration = Duration::from_hours(12);

/// A way out that is never taken.
pub(crate) struct ClosedTransport {
    name: &'static str,
    pub(crate) in_trouble: AtomicBool,
}

impl ClosedTransport {
    fn called(name: &'static str) -> Arc<Self> {
        let in_trouble = AtomicBool::new(false);
        Arc::new(Self { name, in_trouble })
    }
}

#[async_trait]
impl Transport for ClosedTransport {
    fn name(&self) -> &str {
        self.name
    }
    async fn send(&self, _email: &Outgoing, _gate: &dyn Gate) -> Vec<RecipientResult> {
        unreachable!("nothing is sent in these tests")
    }
    async fn check(&self) -> Result<String, String> {
        if self.in_trouble.load(Ordering::SeqCst) {
            Err("smtp.internal refuses".to_owned())
        } else {
            Ok("well".to_owned())
        }
    }
    async fn close(&self) {}
}

pub(crate) struct Server {
    pub(crate) router: Router,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) access: Arc<Access>,
    pub(crate) admins: Arc<Admins>,
    pub(crate) transport: Arc<ClosedTransport>,
    pub(crate) message_metrics: Arc<MessageMetrics>,
    folder: TempDir,
}

/// The parts of a server, and what a test wants to reach behind it.
pub(crate) fn parts(
    limits: Limits,
) -> (ServerParts, Arc<SqliteStore>, Arc<ClosedTransport>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..SqliteOptions::new(folder.path().join(DATABASE))
    };
    let store = Arc::new(SqliteStore::open(options).unwrap());
    let shared: SharedStore = store.clone();
    let policies = Policies::default().with_routes(["backup".to_owned()]);
    let policies = Arc::new(policies);
    let wake = Arc::new(Notify::new());
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry, &["closed", "spare"]));
    let message_metrics = Arc::new(MessageMetrics::new(&mut registry));
    let message_desk = MessageDesk::new(Arc::clone(&shared), Arc::new(Notify::new()));
    let broker = Arc::new(InProcessBroker::new(10_000));
    let intake = Intake::new(
        Arc::clone(&shared),
        Some(broker.clone()),
        Arc::clone(&policies),
        Some(Arc::clone(&metrics)),
        Arc::clone(&wake),
        Source::Api,
    );
    let transport = ClosedTransport::called("closed");
    let ways = Arc::new(Ways::new(ways(transport.clone())));
    let operator = Operator::new(Arc::clone(&shared), policies, wake);
    let parts = ServerParts {
        intake: Arc::new(intake),
        operator: Arc::new(operator.sending_by(Arc::clone(&ways))),
        feedback: Arc::new(FeedbackDesk::new(Arc::clone(&shared), Arc::clone(&ways))),
        ways,
        access: Arc::new(Access::new(Arc::clone(&shared))),
        admins: Arc::new(Admins::new(shared, SESSION)),
        opens_locally: true,
        secure_cookies: false,
        trusted_proxies: vec![PROXY],
        configuration: configuration(),
        metrics,
        registry: Arc::new(registry),
        broker: Some(broker),
        message_desk: Arc::new(message_desk),
        message_metrics,
        message_broker: None,
        serves_api: true,
        limits,
        version: "1.2.3-test",
    };
    (parts, store, transport, folder)
}

/// Two ways out: `closed`, which listens to its provider, and `spare`, which the route `backup`
/// takes.
fn ways(closed: Arc<ClosedTransport>) -> WaysConfig {
    let closed = WayParts {
        transport: closed,
        limits: posthaste_engine::Limits {
            rate: Some(12.5),
            concurrency: Some(3),
        },
        feedback: Some(Arc::new(ScriptedReader)),
    };
    let spare: Arc<dyn Transport> = ClosedTransport::called("spare");
    let backup = Route::ordered(["spare"]);
    WaysConfig {
        transports: vec![closed, spare.into()],
        routes: BTreeMap::from([("backup".to_owned(), backup)]),
        breaker: Some(BreakerRules::default()),
        ..WaysConfig::default()
    }
}

/// Some of the configuration.
fn configuration() -> Vec<Setting> {
    let setting = |(section, key, value, source): (&str, &str, &str, &str)| Setting {
        section: section.into(),
        key: key.into(),
        value: value.into(),
        source: source.into(),
    };
    let settings = [
        ("retention", "sent", "30d", "default"),
        ("retention", "dead", "30d", "default"),
        ("retention", "content", "", "default"),
        ("smtp", "url", "smtp://u:***@mail.example.org", "SMTP_URL"),
    ];
    settings.map(setting).to_vec()
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(Limits::default())
    }

    pub(crate) fn start_with(limits: Limits) -> Self {
        Self::start_as(limits, None)
    }

    /// A server whose process sees to messages.
    pub(crate) fn start_beside(message_broker: Arc<dyn MessageBroker>) -> Self {
        Self::start_as(Limits::default(), Some(message_broker))
    }

    fn start_as(limits: Limits, message_broker: Option<Arc<dyn MessageBroker>>) -> Self {
        let (mut parts, store, transport, folder) = parts(limits);
        parts.message_broker = message_broker;
        Self::made(parts, posthaste_server::router, store, transport, folder)
    }

    /// A server that answers with what is made of these parts.
    pub(crate) fn made(
        parts: ServerParts,
        router: impl FnOnce(ServerParts) -> Router,
        store: Arc<SqliteStore>,
        transport: Arc<ClosedTransport>,
        folder: TempDir,
    ) -> Self {
        let intake = Arc::clone(&parts.intake);
        let access = Arc::clone(&parts.access);
        let admins = Arc::clone(&parts.admins);
        let message_metrics = Arc::clone(&parts.message_metrics);
        Self {
            router: router(parts),
            store,
            intake,
            access,
            admins,
            transport,
            message_metrics,
            folder,
        }
    }

    /// The file that everything is in.
    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.folder.path().join(DATABASE)
    }

    /// Sends a request as it is, with a peer on loopback unless it says otherwise.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        if request
            .extensions()
            .get::<ConnectInfo<SocketAddr>>()
            .is_none()
        {
            let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(local("GET", path).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Body>) -> Answer {
        let request = local("POST", path).header("content-type", "application/json");
        self.send(request.body(body.into()).unwrap()).await
    }

    /// A POST without a body, or a DELETE.
    pub(crate) async fn act(&self, method: &str, path: &str) -> Answer {
        self.send(local(method, path).body(Body::empty()).unwrap())
            .await
    }

    /// Hands an email in and gives its id.
    pub(crate) async fn accepted(&self, patch: Value) -> String {
        let answer = self.post("/v1/emails", &email(patch)).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Makes a key and gives its id and secret.
    pub(crate) async fn key(&self, owner: &str, scopes: &[&str]) -> (String, String) {
        let new = NewKey {
            name: format!("{owner}'s"),
            owner: owner.to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            from_addresses: Vec::new(),
        };
        let actor = Actor {
            name: "test".into(),
            owner: None,
        };
        let (key, secret) = self.access.create(new, &actor).await.unwrap();
        (key.id, secret)
    }

    /// A sender begins an attempt.
    pub(crate) async fn begin(&self, id: &str) -> posthaste_core::port::Lease {
        let id: EmailId = id.parse().unwrap();
        let begun = self
            .store
            .begin(vec![id], "worker-1", Duration::from_secs(60))
            .await
            .unwrap();
        match begun.into_iter().next() {
            Some(Begun::Started(started)) => started.lease,
            other => panic!("{other:?}"),
        }
    }

    /// Makes an attempt that ends so.
    pub(crate) async fn attempt(&self, id: &str, outcome: Outcome, conclusion: Conclusion) {
        let lease = self.begin(id).await;
        let failed = (outcome != Outcome::Sent).then(|| "550 5.1.1 no such user".to_owned());
        let decision = Decision {
            error_class: failed.as_ref().map(|_| "mailbox_unknown".to_owned()),
            fingerprint: failed.as_ref().map(|_| "550 5.1.1".to_owned()),
            stage: failed.as_ref().map(|_| Stage::Recipient),
            reply: failed.clone(),
            error: failed,
            ..Decision::new(conclusion, outcome)
        };
        let finish = Finish {
            lease,
            decision,
            transport: Some("closed".into()),
            budget: 8,
            removes_sent: false,
        };
        let finished = self.store.finish(vec![finish]).await.unwrap();
        assert!(finished[0].is_ok());
    }

    pub(crate) async fn sent(&self, patch: Value) -> String {
        let id = self.accepted(patch).await;
        self.attempt(&id, Outcome::Sent, Conclusion::Sent).await;
        id
    }

    pub(crate) async fn dead(&self, patch: Value) -> String {
        let id = self.accepted(patch).await;
        let dead = Conclusion::Dead(DeadReason::HardBounce);
        self.attempt(&id, Outcome::Permanent, dead).await;
        id
    }

    pub(crate) async fn unknown(&self, patch: Value) -> String {
        let id = self.accepted(patch).await;
        self.attempt(&id, Outcome::Unknown, Conclusion::Hold).await;
        id
    }
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The fields that a problem names.
    pub(crate) fn fields(&self) -> Vec<String> {
        let body = self.json();
        body["errors"]
            .as_array()
            .unwrap_or_else(|| panic!("no errors in {body}"))
            .iter()
            .map(|error| error["field"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Checks that this is a problem of RFC 9457 with this status.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        for name in ["type", "title", "detail"] {
            assert!(!body[name].as_str().unwrap().is_empty(), "{body}");
        }
        assert!(body["errors"].is_array(), "{body}");
        self
    }
}

/// A request to this machine by its loopback name.
pub(crate) fn local(method: &str, path: &str) -> request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8086")
}

/// A request with a key.
pub(crate) fn with_key(method: &str, path: &str, secret: &str) -> Request<Body> {
    local(method, path)
        .header("authorization", format!("Bearer {secret}"))
        .body(Body::empty())
        .unwrap()
}

/// A valid email with these fields put in the place of its own; `null` takes one away.
pub(crate) fn email(patch: Value) -> Value {
    let mut email = json!({
        "from": "Shop <shop@example.org>",
        "to": "ann@example.net",
        "subject": "Your order",
        "text": "Thank you.",
    });
    for (name, value) in patch.as_object().unwrap() {
        if value.is_null() {
            email.as_object_mut().unwrap().remove(name);
        } else {
            email[name] = value.clone();
        }
    }
    email
}
