//! What every request can reach.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::port::{Broker, MessageBroker};
use posthaste_engine::intake::LARGEST_MESSAGE_BYTES;
use posthaste_engine::{
    Access, Admins, FeedbackDesk, Intake, MessageDesk, MessageMetrics, Metrics, Operator, Ways,
};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::Doorkeeper;
use crate::desk::Pulse;
use crate::route::docs::Docs;
use crate::route::health::TransportHealth;
use crate::route::metrics::build_info;

/// How many pages may watch for changes; more show what is new when they are reloaded.
const MOST_LIVE_STREAMS: usize = 512;

/// What the server may use at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body of a request.
    pub body_bytes: usize,
    /// How much all larger bodies that are being worked on may take together; at least as much
    /// as one may have. More are answered 503 with `Retry-After`.
    pub all_bodies_bytes: usize,
    /// How many requests may be under way; more are answered 503 with `Retry-After`.
    pub in_flight_requests: usize,
    /// How many connections may be open; more wait to be accepted.
    pub connections: usize,
    /// How long a request may take to arrive, and then again to be answered.
    pub request_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: LARGEST_MESSAGE_BYTES,
            all_bodies_bytes: 256 * 1024 * 1024,
            in_flight_requests: 2_048,
            connections: 4_096,
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Once for the body to arrive, which has a limit of its own, and once for the answer.
    pub(crate) const fn longest_request(&self) -> Duration {
        self.request_timeout.saturating_mul(2)
    }
}

/// What the server works with.
pub struct ServerParts {
    /// Takes emails in.
    pub intake: Arc<Intake>,
    /// What people see and do.
    pub operator: Arc<Operator>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// Who may use the dashboard.
    pub admins: Arc<Admins>,
    /// Whether anyone on this machine may come in while there is no admin and no key. Not for what
    /// is behind a proxy: one that forwards as little as it can makes everyone look local.
    pub opens_locally: bool,
    /// Whether browsers are told to send logins over https only, however they came.
    pub secure_cookies: bool,
    /// Proxies that are believed when they say whom a login comes from.
    pub trusted_proxies: Vec<IpAddr>,
    /// The configuration that is in force, without secrets.
    pub configuration: Vec<Setting>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where it is counted.
    pub registry: Arc<Registry>,
    /// The ways out, for `/readyz` and what is said of them.
    pub ways: Arc<Ways>,
    /// Takes in what providers say later.
    pub feedback: Arc<FeedbackDesk>,
    /// Where tickets wait, for `/readyz` and `/metrics`.
    pub broker: Option<Arc<dyn Broker>>,
    /// What people see of messages and do to them.
    pub message_desk: Arc<MessageDesk>,
    /// What is counted of messages.
    pub message_metrics: Arc<MessageMetrics>,
    /// Where messages come and go, for `/readyz` and `/metrics`, if this process sees to them.
    pub message_broker: Option<Arc<dyn MessageBroker>>,
    /// Whether there is more than health and metrics to see. A desk of its own has no API.
    pub serves_api: bool,
    /// What the server may use at most.
    pub limits: Limits,
    /// The version in `/metrics` and the API's description.
    pub version: &'static str,
}

/// An option of the configuration, as people may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its section, for example `retention`.
    pub section: String,
    /// Its name there.
    pub key: String,
    /// Its value, without secrets.
    pub value: String,
    /// Where it was given: a file, a variable, a flag, or nowhere.
    pub source: String,
}

/// The parts, and what the server adds to them.
pub(crate) struct App {
    pub(crate) intake: Arc<Intake>,
    pub(crate) operator: Arc<Operator>,
    pub(crate) doorkeeper: Doorkeeper,
    /// Makes and revokes keys.
    pub(crate) access: Arc<Access>,
    /// Logs people in.
    pub(crate) admins: Arc<Admins>,
    /// Whether browsers are told to send logins over https only, however they came.
    pub(crate) secure_cookies: bool,
    /// Proxies that are believed when they say whom a login comes from.
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// The configuration that is in force, without secrets.
    pub(crate) configuration: Vec<Setting>,
    /// What the forms of people who need no login are bound to.
    pub(crate) csrf_secret: [u8; 32],
    /// The numbers that every page shows.
    pub(crate) pulse: Pulse,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) build_info: Registry,
    pub(crate) ways: Arc<Ways>,
    pub(crate) feedback: Arc<FeedbackDesk>,
    /// What is known about each transport.
    pub(crate) transports: Vec<TransportHealth>,
    pub(crate) broker: Option<Arc<dyn Broker>>,
    pub(crate) message_desk: Arc<MessageDesk>,
    pub(crate) message_metrics: Arc<MessageMetrics>,
    pub(crate) message_broker: Option<Arc<dyn MessageBroker>>,
    /// Whether pages may point to the API.
    pub(crate) serves_api: bool,
    pub(crate) limits: Limits,
    /// Permits for requests under way.
    pub(crate) in_flight: Semaphore,
    /// Permits for pages that watch for changes.
    pub(crate) live_streams: Arc<Semaphore>,
    /// Permits for the KiB of large bodies.
    pub(crate) body_kib: Arc<Semaphore>,
    /// Cancelled when the server begins to drain.
    pub(crate) shutdown: CancellationToken,
    /// The API's description.
    pub(crate) docs: Docs,
}

impl App {
    pub(crate) fn new(parts: ServerParts, shutdown: CancellationToken) -> Self {
        let limits = parts.limits;
        Self {
            intake: parts.intake,
            operator: parts.operator,
            doorkeeper: Doorkeeper::new(
                Arc::clone(&parts.access),
                Arc::clone(&parts.admins),
                parts.opens_locally,
            ),
            access: parts.access,
            admins: parts.admins,
            secure_cookies: parts.secure_cookies,
            trusted_proxies: parts.trusted_proxies,
            configuration: parts.configuration,
            csrf_secret: rand::random(),
            pulse: Pulse::default(),
            metrics: parts.metrics,
            registry: parts.registry,
            build_info: build_info(parts.version),
            transports: TransportHealth::of(&parts.ways),
            ways: parts.ways,
            feedback: parts.feedback,
            broker: parts.broker,
            message_desk: parts.message_desk,
            message_metrics: parts.message_metrics,
            message_broker: parts.message_broker,
            serves_api: parts.serves_api,
            limits,
            in_flight: Semaphore::new(limits.in_flight_requests),
            live_streams: Arc::new(Semaphore::new(MOST_LIVE_STREAMS)),
            body_kib: Arc::new(Semaphore::new(limits.all_bodies_bytes / 1024)),
            shutdown,
            docs: Docs::of(parts.version),
        }
    }
    /// Whether mail is captured here instead of sent, by one of the transports at least.
    pub(crate) fn captures(&self) -> bool {
        self.ways.transports().any(|one| one.name() == "capture")
    }
}
