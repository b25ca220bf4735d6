//! Puts the parts together. The only place that knows every adapter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use posthaste_broker::{InProcessBroker, RabbitMqBroker, RabbitMqMessages, RabbitMqOptions};
use posthaste_core::classification::Classifier;
use posthaste_core::port::{
    Actor, Broker, Domains, MessageBroker, NoTracer, SharedStore, Tracer, Transport,
};
use posthaste_engine::metrics::Source;
use posthaste_engine::runtime::EngineParts;
use posthaste_engine::{
    Access, Admins, EngineConfig, Intake, MessageDesk, MessageMetrics, Metrics, Operator, Roles,
    WayParts, Ways, WaysConfig,
};
use posthaste_store::{PostgresStore, SqliteOptions, SqliteStore};
use posthaste_transport::{CaptureTransport, DnsDomains, SmtpConfig, SmtpTransport, Timeouts};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use crate::arguments::Global;
use crate::config::{self, ConfigError, Database, Loaded, Overrides, Settings, without_password};
use crate::exit::NotFound;
use crate::{data_dir, user};

/// How long `doctor` waits for RabbitMQ.
const RABBITMQ_PATIENCE: Duration = Duration::from_secs(5);

/// Loads the configuration from flags, environment and file.
pub(crate) fn load_config(
    global: &Global,
    listen: Option<std::net::SocketAddr>,
) -> Result<Loaded, ConfigError> {
    let overrides = Overrides {
        file: global.config.clone(),
        data_dir: global.data_dir.clone(),
        listen,
    };
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    config::load(&overrides, &environment)
}

/// Who opens the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A server that waits for news of others.
    Server,
    /// A command that is gone a moment later.
    Command,
    /// A command that only makes sense on a database that is there. It is not the one to bring it
    /// up to date: an application may work on it with an older posthaste.
    Visitor,
}

/// Opens the store. Who is more than a visitor creates it if it is not there.
pub(crate) async fn open_store(settings: &Settings, opener: Opener) -> anyhow::Result<SharedStore> {
    let database = settings.database()?;
    let cannot_open = || format!("cannot open the database {database}");
    let migrates = opener != Opener::Visitor;
    Ok(match &database {
        Database::Sqlite(path) => {
            if migrates {
                data_dir::create(path)?;
            }
            let mut options = SqliteOptions::new(path);
            options.migrates = migrates;
            Arc::new(SqliteStore::open(options).with_context(cannot_open)?)
        }
        Database::Postgres(url) => {
            let mut options = settings.postgres_options(url);
            options.listens = opener == Opener::Server;
            options.migrates = migrates;
            Arc::new(
                PostgresStore::open(options)
                    .await
                    .with_context(cannot_open)?,
            )
        }
    })
}

/// Where tickets wait: in RabbitMQ if it is configured; otherwise in this process if nobody else
/// can work on the database, and nowhere if others can: then senders claim from it.
fn build_broker(settings: &Settings, roles: Roles) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    if !(roles.api || roles.sender || roles.scheduler) {
        return Ok(None);
    }
    if let Some(options) = settings.rabbitmq_options(roles.sender)? {
        return Ok(Some(Arc::new(RabbitMqBroker::start(options)?)));
    }
    Ok(match settings.database()? {
        Database::Sqlite(_) => Some(Arc::new(InProcessBroker::new(settings.broker.capacity))),
        Database::Postgres(_) => None,
    })
}

/// Where messages of other services come and go, if this process sees to them.
fn build_message_broker(
    settings: &Settings,
    roles: Roles,
) -> anyhow::Result<Option<Arc<dyn MessageBroker>>> {
    let options = settings.rabbitmq_options(false)?.filter(|_| roles.messages);
    Ok(match options {
        Some(options) => Some(Arc::new(RabbitMqMessages::start(options)?)),
        None => None,
    })
}

/// Where the steps of emails and messages are recorded, if anywhere.
fn build_tracer(settings: &Settings) -> anyhow::Result<Arc<dyn Tracer>> {
    if settings.trace.endpoint.is_empty() {
        return Ok(Arc::new(NoTracer));
    }
    #[cfg(feature = "otlp")]
    {
        let options = posthaste_trace::OtlpOptions {
            endpoint: settings.trace.endpoint.clone(),
            service_name: settings.service.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            sample_ratio: settings.trace.sample_ratio,
        };
        let tracer = posthaste_trace::OtlpTracer::start(&options)
            .context("trace.endpoint (OTEL_EXPORTER_OTLP_ENDPOINT)")?;
        Ok(Arc::new(tracer))
    }
    #[cfg(not(feature = "otlp"))]
    anyhow::bail!("trace.endpoint is set, but this program was built without the feature `otlp`")
}

/// Whether RabbitMQ can be reached, and has the queues we need.
pub(crate) async fn check_rabbitmq(options: RabbitMqOptions) -> Result<String, String> {
    let name = without_password(&options.url);
    let broker = RabbitMqBroker::start(options).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + RABBITMQ_PATIENCE;
    let answer = loop {
        match broker.trouble() {
            None => break Ok(name),
            Some(trouble) if Instant::now() > deadline => break Err(trouble),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    broker.close().await;
    answer
}

/// The transports: a mail server, providers' APIs, or the dev inbox.
pub(crate) fn build_transports(
    settings: &Settings,
    store: Option<&SharedStore>,
) -> anyhow::Result<Vec<WayParts>> {
    let mut built = Vec::new();
    if let Some(config) = settings.smtp_config()? {
        let place = "smtp.url (SMTP_URL)";
        built.push(WayParts::from(build_smtp(settings, config).context(place)?));
    }
    for (name, transport) in &settings.transport {
        let http = transport.http(name, settings.sender.connections)?;
        let made = match (http, transport.smtp(name)) {
            (Some(http), _) => http,
            (None, Some(config)) => {
                build_smtp(settings, config?).with_context(|| format!("transport.{name}.url"))?
            }
            (None, None) => continue,
        };
        built.push(WayParts {
            transport: made,
            limits: transport.limits().limits(),
            feedback: transport.feedback(name)?,
        });
    }
    if let (true, Some(store)) = (built.is_empty(), store) {
        let capture: Arc<dyn Transport> = Arc::new(CaptureTransport::new(Arc::clone(store)));
        built.push(capture.into());
    }
    Ok(built)
}

/// The ways out, as far as this process needs them.
fn build_ways(settings: &Settings, store: &SharedStore) -> anyhow::Result<Ways> {
    let domains = settings.dns.options().map(DnsDomains::new).transpose();
    let domains = domains.context("dns")?;
    let by_domain = settings.limits.domain.iter();
    Ok(Ways::new(WaysConfig {
        transports: build_transports(settings, Some(store))?,
        routes: settings.routes()?,
        breaker: settings.breaker.rules(),
        domain_limits: settings.limits.any().limits(),
        limits_by_domain: by_domain
            .map(|(domain, limits)| (domain.to_lowercase(), limits.limits()))
            .collect(),
        domains: domains.map(|domains| Arc::new(domains) as Arc<dyn Domains>),
        connections: settings.sender.connections,
    }))
}

/// A mail server as a way out.
fn build_smtp(settings: &Settings, mut config: SmtpConfig) -> anyhow::Result<Arc<dyn Transport>> {
    let smtp = &settings.smtp;
    if !smtp.client_name.is_empty() {
        config.client_name = Some(smtp.client_name.clone());
    }
    config.connections = settings.sender.connections;
    config.idle_limit = smtp.idle.0;
    config.messages_per_connection = smtp.messages_per_connection;
    config.timeouts = Timeouts {
        connect: smtp.connect_timeout.0,
        tls: smtp.connect_timeout.0,
        banner: smtp.command_timeout.0,
        hello: smtp.command_timeout.0,
        authentication: smtp.command_timeout.0,
        mail: smtp.command_timeout.0,
        recipient: smtp.command_timeout.0,
        data: smtp.command_timeout.0,
        body: smtp.body_timeout.0,
        dot: smtp.final_dot_timeout.0,
    };
    Ok(Arc::new(SmtpTransport::new(config)?))
}

/// Everything the engine works with, and the registry of its metrics.
pub(crate) async fn engine_parts(
    settings: &Settings,
    roles: Roles,
) -> anyhow::Result<(EngineParts, Registry)> {
    let store = open_store(settings, Opener::Server).await?;
    let ways = Arc::new(build_ways(settings, &store)?);
    let mut registry = Registry::default();
    let names: Vec<&str> = ways
        .transports()
        .map(|transport| transport.name())
        .collect();
    let metrics = Arc::new(Metrics::new(&mut registry, &names));
    drop(names);
    let message_metrics = Arc::new(MessageMetrics::new(&mut registry));
    let parts = EngineParts {
        store,
        broker: build_broker(settings, roles)?,
        ways,
        policies: Arc::new(settings.policies()?),
        classifier: Classifier::new(settings.classification.rules.clone()),
        metrics,
        message_broker: build_message_broker(settings, roles)?,
        message_metrics,
        tracer: build_tracer(settings)?,
        alert_channels: settings.alert_channels()?,
        wake: Arc::new(Notify::new()),
    };
    Ok((parts, registry))
}

/// How the engine works.
pub(crate) fn engine_config(
    settings: &Settings,
    roles: Roles,
) -> Result<EngineConfig, ConfigError> {
    Ok(EngineConfig {
        roles,
        worker: worker_name(settings),
        connections: settings.sender.connections,
        lease: settings.sender.lease.0,
        retry_interval: settings.retry.interval.0,
        retention: settings.retention(),
        drain: settings.shutdown.drain.0,
        messages: settings.message_config()?,
        session: settings.admin.session.0,
        alerts: settings.alert_config(),
        source: Source::Api,
        patience: inline_patience(settings, roles),
    })
}

/// How long callers wait who want their emails sent at once. A process that does not send otherwise
/// may have been started without a mail server: it must not put their mail into the dev inbox.
fn inline_patience(settings: &Settings, roles: Roles) -> Option<Duration> {
    let has_way_out = roles.sender || settings.has_way_out();
    // There must be time left for the answer.
    let longest = settings.server.request_timeout.0.mul_f64(0.75);
    has_way_out.then_some(settings.sender.inline_timeout.0.min(longest))
}

fn worker_name(settings: &Settings) -> String {
    if !settings.sender.worker.is_empty() {
        return settings.sender.worker.clone();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() {
        settings.service.name.as_str()
    } else {
        host
    };
    format!("{host}:{}", std::process::id())
}

/// What a command works with: the same paths as the API, on the database itself. A server that
/// runs beside it notices what was changed.
pub(crate) struct Desk {
    /// What people see and do.
    pub(crate) operator: Operator,
    /// Takes emails in.
    pub(crate) intake: Arc<Intake>,
    /// What people see of messages and do to them.
    pub(crate) messages: MessageDesk,
    /// Who may do what.
    pub(crate) access: Access,
    /// Who may use the dashboard.
    pub(crate) admins: Admins,
    /// Who is at the terminal.
    pub(crate) actor: Actor,
    database: Database,
}

impl Desk {
    /// Whether it is certain that no server works on the database. With PostgreSQL it never is:
    /// one may run anywhere.
    pub(crate) fn is_alone(&self) -> bool {
        is_unserved(&self.database)
    }
}

/// Whether it is certain that no server works on this database.
pub(crate) fn is_unserved(database: &Database) -> bool {
    matches!(database, Database::Sqlite(path) if !data_dir::is_served(path))
}

/// Opens the desk for a command on a database that is there.
pub(crate) async fn open_desk(global: &Global) -> anyhow::Result<Desk> {
    let database = load_config(global, None)?.settings.database()?;
    if let Database::Sqlite(path) = database
        && !path.is_file()
    {
        let message = format!(
            "there is no database at {}: name the server's folder with --data-dir, or start it with `posthaste`",
            path.display()
        );
        return Err(NotFound(message).into());
    }
    desk(global, Opener::Visitor).await
}

/// Opens the desk for a command that may come before the first start of the server.
pub(crate) async fn open_or_create_desk(global: &Global) -> anyhow::Result<Desk> {
    desk(global, Opener::Command).await
}

async fn desk(global: &Global, opener: Opener) -> anyhow::Result<Desk> {
    let settings = load_config(global, None)?.settings;
    let store = open_store(&settings, opener).await?;
    let policies = Arc::new(settings.policies()?);
    let nobody = Arc::new(Notify::new());
    let operator = Operator::new(
        Arc::clone(&store),
        Arc::clone(&policies),
        Arc::clone(&nobody),
    )
    .sending_by(Arc::new(build_ways(&settings, &store)?));
    let intake = Arc::new(Intake::new(
        Arc::clone(&store),
        None,
        policies,
        None,
        Arc::clone(&nobody),
        Source::Cli,
    ));
    let messages = MessageDesk::new(Arc::clone(&store), nobody);
    let access = Access::new(Arc::clone(&store));
    let admins = Admins::new(store, settings.admin.session.0);
    let actor = Actor {
        name: format!("cli:{}", user::name()),
        owner: None,
    };
    Ok(Desk {
        operator,
        intake,
        messages,
        access,
        admins,
        actor,
        database: settings.database()?,
    })
}
