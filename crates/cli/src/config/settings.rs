//! Every option, and the checks that the types cannot make.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use posthaste_broker::rabbitmq::{self, QueueNames, RabbitMqOptions};
use posthaste_core::classification::RuleOverride;
use posthaste_core::duration::HumanDuration;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_engine::Policies;
use posthaste_store::PostgresOptions;
use posthaste_transport::SmtpConfig;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::alerts::Alerts;
use super::load::ConfigError;
use super::messages::{MESSAGE_POLICY, Messages};
use super::retention::RetentionSettings;
use super::transport::TransportSettings;
use super::url::{credentials_are_encoded, without_password};
use super::ways::{Breaker, Dns, DomainLimits, RouteSettings};

/// Says on purpose that mail goes to the dev inbox.
pub(crate) const CAPTURE: &str = "capture";
/// So many tickets a process may hold however few connections it has.
const FEWEST_TICKETS: usize = 100;

/// Every option; `config.default.toml` says what each means.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Settings {
    pub(crate) service: Service,
    pub(crate) server: Server,
    pub(crate) admin: Admin,
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    pub(crate) smtp: Smtp,
    #[serde(default)]
    pub(crate) transport: BTreeMap<String, TransportSettings>,
    #[serde(default)]
    pub(crate) route: BTreeMap<String, RouteSettings>,
    pub(crate) breaker: Breaker,
    pub(crate) limits: DomainLimits,
    pub(crate) dns: Dns,
    pub(crate) sender: Sender,
    pub(crate) retry: Retry,
    pub(crate) messages: Messages,
    #[serde(default)]
    pub(crate) policy: BTreeMap<String, RetryPolicy>,
    pub(crate) classification: Classification,
    pub(crate) retention: RetentionSettings,
    pub(crate) alerts: Alerts,
    pub(crate) shutdown: Shutdown,
    pub(crate) log: Log,
    pub(crate) trace: Trace,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) data_dir: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Server {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) max_in_flight: usize,
    pub(crate) request_timeout: HumanDuration,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Admin {
    pub(crate) session: HumanDuration,
    pub(crate) secure_cookies: bool,
    pub(crate) trusted_proxies: Vec<IpAddr>,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) connections: usize,
    pub(crate) writers: usize,
    pub(crate) timeout: HumanDuration,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Broker {
    pub(crate) url: String,
    pub(crate) queue_type: QueueType,
    pub(crate) existing_queues: Existing,
    pub(crate) send_queue: String,
    pub(crate) retry_queue: String,
    pub(crate) dead_queue: String,
    pub(crate) review_queue: String,
    pub(crate) prefetch: u16,
    pub(crate) publish_timeout: HumanDuration,
    pub(crate) capacity: usize,
}

/// The kind of queue that is declared in RabbitMQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueueType {
    /// Replicated.
    Quorum,
    /// On one node.
    Classic,
}

/// What becomes of a queue that is there with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Existing {
    /// It is an error.
    Check,
    /// It is used as it is.
    Accept,
}

/// Where emails are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// In this file.
    Sqlite(PathBuf),
    /// In the database at this URL.
    Postgres(String),
}

impl std::fmt::Display for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Smtp {
    pub(crate) url: String,
    pub(crate) client_name: String,
    pub(crate) messages_per_connection: u32,
    pub(crate) idle: HumanDuration,
    pub(crate) connect_timeout: HumanDuration,
    pub(crate) command_timeout: HumanDuration,
    pub(crate) body_timeout: HumanDuration,
    pub(crate) final_dot_timeout: HumanDuration,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Sender {
    pub(crate) connections: usize,
    pub(crate) lease: HumanDuration,
    pub(crate) inline_timeout: HumanDuration,
    pub(crate) worker: String,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Retry {
    pub(crate) interval: HumanDuration,
    pub(crate) max_attempts: u32,
    pub(crate) schedule: Vec<HumanDuration>,
    pub(crate) jitter: HumanDuration,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) max_unknown_resends: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Classification {
    pub(crate) rules: Vec<RuleOverride>,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Shutdown {
    pub(crate) drain: HumanDuration,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Log {
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Trace {
    pub(crate) endpoint: String,
    pub(crate) sample_ratio: f64,
}

impl Log {
    /// Which lines are written. A single word must be a level: a slip there would silence all.
    pub(crate) fn filter(&self) -> Result<EnvFilter, ConfigError> {
        let invalid = || {
            let message = format!(
                "`{}` is no level; use error, warn, info, debug or trace, or a filter such as \
                 info,posthaste_transport=debug",
                self.level
            );
            ConfigError::new("log.level", message)
        };
        for word in self.level.split(',').filter(|word| !word.contains('=')) {
            word.trim().parse::<LevelFilter>().map_err(|_| invalid())?;
        }
        // The AMQP library writes whole messages into its warnings, the pool repeats every error;
        // ours say what matters.
        let quiet = if self.level.contains("lapin") || self.level.contains("deadpool") {
            ""
        } else {
            ",lapin=off,deadpool=off"
        };
        EnvFilter::try_new(format!("{}{quiet}", self.level)).map_err(|_| invalid())
    }
}

impl Trace {
    fn check(&self) -> Result<(), ConfigError> {
        let is_url = |scheme| self.endpoint.starts_with(scheme);
        if !(self.endpoint.is_empty() || is_url("http://") || is_url("https://")) {
            let message = "must be the URL of a collector, such as http://127.0.0.1:4318";
            let place = "trace.endpoint (OTEL_EXPORTER_OTLP_ENDPOINT)";
            return Err(ConfigError::new(place, message));
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let message = "must be from 0.0 to 1.0";
            return Err(ConfigError::new("trace.sample_ratio", message));
        }
        Ok(())
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Settings {
    /// The retry policies: built in, `[retry]` as `email`, `[messages]` as `message`, then
    /// `[policy.*]`.
    pub(crate) fn policies(&self) -> Result<Policies, ConfigError> {
        let Retry {
            max_attempts,
            schedule,
            jitter,
            on_unknown,
            max_unknown_resends,
            ..
        } = self.retry.clone();
        let email = RetryPolicy {
            max_attempts,
            backoff: Backoff::Schedule { schedule },
            jitter,
            on_unknown,
            max_unknown_resends,
            expire_after: None,
        };
        email
            .validate()
            .map_err(|error| ConfigError::new("retry", error.to_string()))?;
        let message = self.messages.checked_policy()?;
        let mut policies = BTreeMap::from([
            ("email".to_owned(), email),
            (MESSAGE_POLICY.to_owned(), message),
        ]);
        for (name, policy) in &self.policy {
            policy
                .validate()
                .map_err(|error| ConfigError::new(format!("policy.{name}"), error.to_string()))?;
            policies.insert(name.clone(), policy.clone());
        }
        let routes = self.routes()?;
        Ok(Policies::new(policies).with_routes(routes.into_keys()))
    }

    /// Refuses what is risky or cannot work.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let at_least = |place: &str, value: Duration, least: Duration| {
            if value < least {
                let least = HumanDuration(least);
                return Err(ConfigError::new(place, format!("must be at least {least}")));
            }
            Ok(())
        };
        // Leases are renewed three times in their length: less than this leaves no time to.
        at_least("sender.lease", self.sender.lease.0, Duration::from_secs(1))?;
        at_least(
            "sender.inline_timeout",
            self.sender.inline_timeout.0,
            Duration::from_millis(100),
        )?;
        at_least(
            "retry.interval",
            self.retry.interval.0,
            Duration::from_secs(1),
        )?;
        at_least(
            "smtp.final_dot_timeout",
            self.smtp.final_dot_timeout.0,
            Duration::from_millis(100),
        )?;
        at_least(
            "admin.session",
            self.admin.session.0,
            Duration::from_mins(1),
        )?;
        if !(1..=10_000).contains(&self.sender.connections) {
            return Err(ConfigError::new(
                "sender.connections",
                "must be from 1 to 10000",
            ));
        }
        if self.server.max_in_flight == 0
            || self.broker.capacity == 0
            || self.smtp.messages_per_connection == 0
        {
            let message = "server.max_in_flight, broker.capacity and smtp.messages_per_connection must be at least 1";
            return Err(ConfigError::new("configuration", message));
        }
        if !(2..=1000).contains(&self.store.connections) || !(1..=64).contains(&self.store.writers)
        {
            let message = "store.connections must be from 2 to 1000, store.writers from 1 to 64";
            return Err(ConfigError::new("store", message));
        }
        at_least(
            "store.timeout",
            self.store.timeout.0,
            Duration::from_millis(100),
        )?;
        at_least(
            "messages.poll_interval",
            self.messages.poll_interval.0,
            Duration::from_millis(10),
        )?;
        if self.messages.max_publish_failures == 0 {
            let message = "must be at least 1";
            return Err(ConfigError::new("messages.max_publish_failures", message));
        }
        self.messages.check_queue()?;
        self.rabbitmq_options(true)?;
        self.smtp_config()?;
        self.check_ways()?;
        self.log.filter()?;
        self.trace.check()?;
        self.alerts.check()?;
        self.retention.check()?;
        self.policies()?;
        self.alert_channels()?;
        credentials_are_encoded("store.url (DATABASE_URL)", &self.store.url)?;
        credentials_are_encoded("broker.url (RABBITMQ_URL)", &self.broker.url)?;
        if let Database::Postgres(url) = self.database()? {
            self.postgres_options(&url)
                .check()
                .map_err(|error| ConfigError::new("store.url (DATABASE_URL)", error.to_string()))?;
        }
        Ok(())
    }

    /// The mail server, if mail goes to one. `capture` says on purpose that it does not.
    pub(crate) fn smtp_config(&self) -> Result<Option<SmtpConfig>, ConfigError> {
        if self.smtp.url.is_empty() || self.smtp.url == CAPTURE {
            return Ok(None);
        }
        SmtpConfig::from_url(&self.smtp.url)
            .map(Some)
            .map_err(|error| ConfigError::new("smtp.url (SMTP_URL)", error.to_string()))
    }

    /// How to reach RabbitMQ, if it is configured.
    pub(crate) fn rabbitmq_options(
        &self,
        consumes: bool,
    ) -> Result<Option<RabbitMqOptions>, ConfigError> {
        let broker = &self.broker;
        if broker.url.is_empty() {
            return Ok(None);
        }
        let mut options = RabbitMqOptions::new(&broker.url);
        options.queue_type = match broker.queue_type {
            QueueType::Quorum => rabbitmq::QueueType::Quorum,
            QueueType::Classic => rabbitmq::QueueType::Classic,
        };
        options.existing_queues = match broker.existing_queues {
            Existing::Check => rabbitmq::Existing::Check,
            Existing::Accept => rabbitmq::Existing::Accept,
        };
        options.names = QueueNames {
            send: broker.send_queue.clone(),
            retry: Some(broker.retry_queue.clone()).filter(|name| !name.is_empty()),
            dead: broker.dead_queue.clone(),
            review: broker.review_queue.clone(),
            messages: self.messages.queue.clone(),
        };
        options.prefetch = self.prefetch();
        options.messages_prefetch = self.messages.prefetch;
        options.publish_deadline = broker.publish_timeout.0;
        options.dead_notice_ttl = self.retention.dead.0;
        options.consumes = consumes;
        options.service_name.clone_from(&self.service.name);
        options
            .check()
            .map_err(|error| ConfigError::new("broker (RABBITMQ_URL)", error.to_string()))?;
        Ok(Some(options))
    }

    /// How many tickets of each queue this process may hold before it has begun them.
    fn prefetch(&self) -> u16 {
        match self.broker.prefetch {
            0 => {
                let both = (2 * self.sender.connections).max(FEWEST_TICKETS);
                u16::try_from(both).unwrap_or(u16::MAX)
            }
            chosen => chosen,
        }
    }

    /// Where emails are kept.
    pub(crate) fn database(&self) -> Result<Database, ConfigError> {
        let url = self.store.url.as_str();
        let default = || Database::Sqlite(self.service.data_dir.join("posthaste.db"));
        if url.is_empty() {
            return Ok(default());
        }
        if url.starts_with("postgresql://") || url.starts_with("postgres://") {
            return Ok(Database::Postgres(url.to_owned()));
        }
        match url.strip_prefix("sqlite:") {
            Some(path) if !path.trim_start_matches('/').is_empty() => {
                // Both sqlite:PATH and sqlite:///PATH are in use.
                let path = path.strip_prefix("//").unwrap_or(path);
                Ok(Database::Sqlite(PathBuf::from(path)))
            }
            Some(_) => Ok(default()),
            None => {
                let message = "must be sqlite:PATH or postgresql://user:password@host/database";
                Err(ConfigError::new("store.url (DATABASE_URL)", message))
            }
        }
    }

    /// How to open the PostgreSQL database at `url`.
    pub(crate) fn postgres_options(&self, url: &str) -> PostgresOptions {
        let mut options = PostgresOptions::new(url);
        options.connections = self.store.connections;
        options.writers = self.store.writers;
        options.deadline = self.store.timeout.0;
        options
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::load::load;
    use crate::config::Overrides;

    #[test]
    fn so_many_tickets_are_held_as_suits_the_connections_unless_something_else_is_said() {
        for (connections, said, held) in [(16, 0, 100), (192, 0, 384), (192, 7, 7)] {
            let name = |name: &str| format!("POSTHASTE_{name}");
            let environment = BTreeMap::from([
                (name("SENDER__CONNECTIONS"), connections.to_string()),
                (name("BROKER__PREFETCH"), said.to_string()),
            ]);
            let settings = load(&Overrides::default(), &environment).unwrap().settings;
            assert_eq!(
                settings.prefetch(),
                held,
                "{connections} connections, {said}"
            );
        }
    }
}
