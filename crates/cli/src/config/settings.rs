//! Every option, and the checks that the types cannot make.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use posthaste_core::classification::RuleOverride;
use posthaste_core::duration::HumanDuration;
use posthaste_core::port::Retention;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_engine::Policies;
use posthaste_transport::SmtpConfig;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::load::ConfigError;

/// Says on purpose that mail goes to the dev inbox.
pub(crate) const CAPTURE: &str = "capture";

/// Every option; `config.default.toml` says what each means.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Settings {
    pub(crate) service: Service,
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    pub(crate) smtp: Smtp,
    pub(crate) sender: Sender,
    pub(crate) retry: Retry,
    #[serde(default)]
    pub(crate) policy: BTreeMap<String, RetryPolicy>,
    pub(crate) classification: Classification,
    pub(crate) retention: RetentionSettings,
    pub(crate) shutdown: Shutdown,
    pub(crate) log: Log,
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
pub(crate) struct Store {
    pub(crate) url: String,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Broker {
    pub(crate) url: String,
    pub(crate) capacity: usize,
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

#[derive(Debug, Clone, Copy, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct RetentionSettings {
    pub(crate) sent: HumanDuration,
    pub(crate) dead: HumanDuration,
    pub(crate) captures: HumanDuration,
    pub(crate) audit: HumanDuration,
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
        EnvFilter::try_new(&self.level).map_err(|_| invalid())
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
    /// The retry policies: built in, `[retry]` as `email`, then `[policy.*]`.
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
        let mut policies = BTreeMap::from([("email".to_owned(), email)]);
        for (name, policy) in &self.policy {
            policy
                .validate()
                .map_err(|error| ConfigError::new(format!("policy.{name}"), error.to_string()))?;
            policies.insert(name.clone(), policy.clone());
        }
        Ok(Policies::new(policies))
    }

    /// How long to keep what is over.
    #[must_use]
    pub(crate) fn retention(&self) -> Retention {
        let RetentionSettings {
            sent,
            dead,
            captures,
            audit,
        } = self.retention;
        Retention {
            sent: sent.0,
            dead: dead.0,
            captures: captures.0,
            audit: audit.0,
        }
    }

    /// Refuses what is risky or cannot work.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.policies()?;
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
            "retry.interval",
            self.retry.interval.0,
            Duration::from_secs(1),
        )?;
        at_least(
            "smtp.final_dot_timeout",
            self.smtp.final_dot_timeout.0,
            Duration::from_millis(100),
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
        if !self.broker.url.is_empty() {
            let message = "RabbitMQ is not supported yet; leave RABBITMQ_URL unset for the queue in this process";
            return Err(ConfigError::new("broker.url", message));
        }
        self.smtp_config()?;
        self.log.filter()?;
        self.sqlite_path().map(drop)
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

    /// The database file.
    pub(crate) fn sqlite_path(&self) -> Result<PathBuf, ConfigError> {
        let url = self.store.url.as_str();
        if url.is_empty() {
            return Ok(self.service.data_dir.join("posthaste.db"));
        }
        match url.strip_prefix("sqlite:") {
            Some(path) if !path.trim_start_matches('/').is_empty() => {
                // Both sqlite:PATH and sqlite:///PATH are in use.
                let path = path.strip_prefix("//").unwrap_or(path);
                Ok(PathBuf::from(path))
            }
            Some(_) => Ok(self.service.data_dir.join("posthaste.db")),
            None => {
                let message = "must be sqlite:PATH; PostgreSQL is not supported yet";
                Err(ConfigError::new("store.url (DATABASE_URL)", message))
            }
        }
    }
}
