//! How an outbox is opened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::classification::Classifier;
use posthaste_core::port::{Clock, NoTracer, Retention, SystemClock, Transport};
use posthaste_engine::messages::{MessageConfig, MessageMetrics};
use posthaste_engine::metrics::Source;
use posthaste_engine::runtime::EngineParts;
use posthaste_engine::{AlertConfig, Engine, EngineConfig, Metrics, Policies, Roles, Ways};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use crate::database::{Database, Opened};
use crate::{Error, Outbox, RetryPolicy, policy};

/// No one waits longer than this for a server, or for a process that may be gone.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How an outbox is opened. Begin with [`Outbox::sqlite`] or [`Outbox::postgres`].
#[must_use = "an outbox is there once `open` was called and awaited"]
pub struct OutboxBuilder {
    database: Database,
    #[cfg(feature = "smtp")]
    smtp: Option<String>,
    transport: Option<Arc<dyn Transport>>,
    connections: usize,
    inline_timeout: Duration,
    lease: Duration,
    keep_sent: Duration,
    keep_dead: Duration,
    drain: Duration,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for OutboxBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither URL: there may be passwords in them.
        f.debug_struct("OutboxBuilder").finish_non_exhaustive()
    }
}

impl OutboxBuilder {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            #[cfg(feature = "smtp")]
            smtp: None,
            transport: None,
            connections: 4,
            inline_timeout: Duration::from_secs(10),
            lease: Duration::from_secs(60),
            keep_sent: 30 * DAY,
            keep_dead: 30 * DAY,
            drain: Duration::from_secs(20),
            policy: RetryPolicy::default(),
            clock: Arc::new(SystemClock::start()),
        }
    }

    /// The mail server: `smtp://user:password@host:port?tls=none|opportunistic|required` or
    /// `smtps://user:password@host:port`. Ports may be left out (25 and 465), `tls` is
    /// `opportunistic` then. User and password are percent-encoded.
    #[cfg(feature = "smtp")]
    pub fn smtp(mut self, url: impl Into<String>) -> Self {
        self.smtp = Some(url.into());
        self
    }

    /// A way out of your own, for tests of this crate. Its type may change at any time.
    #[doc(hidden)]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// How many connections to the mail server may be open at the same time; 4 unless told
    /// otherwise.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long [`send_or_enqueue`](Outbox::send_or_enqueue) waits for the mail server; 10
    /// seconds unless told otherwise.
    pub fn inline_timeout(mut self, timeout: Duration) -> Self {
        self.inline_timeout = timeout;
        self
    }

    /// How long what was sent is kept, with its attempts; 30 days unless told otherwise. With
    /// `Duration::ZERO` it is removed the moment it was sent, and its
    /// [`message_key`](crate::Email::message_key) is forgotten with it.
    pub fn keep_sent(mut self, keep: Duration) -> Self {
        self.keep_sent = keep;
        self
    }

    /// How long what was given up is kept; 30 days unless told otherwise.
    pub fn keep_dead(mut self, keep: Duration) -> Self {
        self.keep_dead = keep;
        self
    }

    /// How often and when emails are tried again.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// How long an email that is being sent is held without a sign of life; 60 seconds unless told
    /// otherwise. After a crash, what was being sent waits for so long.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long [`Worker::stop`](crate::Worker::stop) waits for what is being sent; 20 seconds
    /// unless told otherwise.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain = timeout;
        self
    }

    /// The schema of the tables in PostgreSQL; `posthaste` unless told otherwise. It is made if it
    /// is not there.
    #[cfg(feature = "postgres")]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.database.set_schema(schema.into());
        self
    }

    /// Another clock, for tests. Only SQLite listens to it.
    #[doc(hidden)]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the outbox, makes its tables if they are not there, and brings them up to date.
    /// Several processes may do so at the same time. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// If an option is wrong, or the database cannot be opened.
    pub async fn open(self) -> Result<Outbox, Error> {
        self.check()?;
        let (transport, config) = (self.way_out()?, self.config());
        let Opened { store, backend } = self.database.open(Arc::clone(&self.clock)).await?;
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry, &[transport.name()]));
        let ways = Arc::new(Ways::single(transport, self.connections));
        let message_metrics = Arc::new(MessageMetrics::new(&mut registry));
        let overrides = BTreeMap::from([(policy::NAME.to_owned(), self.policy.0.clone())]);
        let policies = Arc::new(Policies::new(overrides));
        let wake = Arc::new(Notify::new());
        let shared_wake = Arc::clone(&wake);
        let parts = move || EngineParts {
            store: Arc::clone(&store),
            broker: None,
            ways: Arc::clone(&ways),
            policies: Arc::clone(&policies),
            classifier: Classifier::default(),
            metrics: Arc::clone(&metrics),
            message_broker: None,
            message_metrics: Arc::clone(&message_metrics),
            tracer: Arc::new(NoTracer),
            alert_channels: Vec::new(),
            wake: Arc::clone(&shared_wake),
        };
        let start = move |roles| {
            let config = EngineConfig {
                roles,
                ..config.clone()
            };
            Engine::start(parts(), config)
        };
        Ok(Outbox::new(backend, registry, wake, Box::new(start)))
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |option, message: String| Err(Error::Option { option, message });
        if self.connections == 0 {
            return wrong("connections", "must be at least 1".into());
        }
        for (option, given, least) in [
            (
                "inline_timeout",
                self.inline_timeout,
                Duration::from_millis(10),
            ),
            ("lease", self.lease, Duration::from_secs(1)),
        ] {
            if !(least..=LONGEST_WAIT).contains(&given) {
                let message = format!("must be from {least:?} to {LONGEST_WAIT:?}");
                return wrong(option, message);
            }
        }
        if let Some(message) = self.database.trouble() {
            return wrong("sqlite", message);
        }
        if let Err(error) = self.policy.0.validate() {
            let message = format!("{} {}", error.field, error.message);
            return wrong("retry_policy", message);
        }
        Ok(())
    }

    fn way_out(&self) -> Result<Arc<dyn Transport>, Error> {
        if let Some(transport) = &self.transport {
            return Ok(Arc::clone(transport));
        }
        #[cfg(feature = "smtp")]
        if let Some(url) = &self.smtp {
            use posthaste_transport::{SmtpConfig, SmtpTransport};
            let wrong = |error: &dyn std::fmt::Display| Error::Option {
                option: "smtp",
                message: error.to_string(),
            };
            let mut config = SmtpConfig::from_url(url).map_err(|error| wrong(&error))?;
            config.connections = self.connections;
            let transport = SmtpTransport::new(config).map_err(|error| wrong(&error))?;
            return Ok(Arc::new(transport));
        }
        let message = if cfg!(feature = "smtp") {
            "is missing; name the mail server, as in smtp://user:password@mail.example.org:587"
        } else {
            "is missing; enable the feature `smtp` of the crate `posthaste`"
        };
        Err(Error::Option {
            option: "smtp",
            message: message.to_owned(),
        })
    }

    fn config(&self) -> EngineConfig {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = Some(host.trim()).filter(|host| !host.is_empty());
        let host = host.unwrap_or("app");
        EngineConfig {
            // Said by whoever starts one.
            roles: Roles::ALL,
            worker: format!("{host}:{}", std::process::id()),
            connections: self.connections,
            lease: self.lease,
            retry_interval: Duration::from_secs(30),
            retention: Retention {
                sent: self.keep_sent,
                dead: self.keep_dead,
                attempts: None,
                content: None,
                captures: self.keep_sent,
                audit: 365 * DAY,
            },
            drain: self.drain,
            messages: MessageConfig::default(),
            session: DAY,
            alerts: AlertConfig::default(),
            source: Source::Library,
            patience: Some(self.inline_timeout),
        }
    }
}
