//! How a server is started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::log::Log;
use super::{DataDir, Posthaste};

/// Variables without the prefix `POSTHASTE_` that configure it.
const CONFIGURATION: [&str; 17] = [
    "BACKOFF_SCHEDULE",
    "BASE_DELAY_MS",
    "DATABASE_URL",
    "DEFAULT_MAX_RETRIES",
    "HTTP_PORT",
    "LEASE_SECONDS",
    "MANUAL_REVIEW_QUEUE",
    "MAX_ATTEMPTS",
    "MAX_DELAY_MS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "RABBITMQ_URL",
    "RETRY_INTERVAL_SECONDS",
    "RETRY_POLL_INTERVAL_MS",
    "RETRY_QUEUE",
    "RUST_LOG",
    "SERVICE_NAME",
    "SMTP_URL",
];

/// Whether a variable would configure the server, as itself or as the name of a file.
pub(super) fn is_configuration(name: &str) -> bool {
    let name = name.strip_suffix("_FILE").unwrap_or(name);
    name.starts_with("POSTHASTE_") || CONFIGURATION.contains(&name)
}

/// A server that is not started yet.
#[must_use]
pub struct PosthasteBuilder {
    program: PathBuf,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    data_dir: Option<PathBuf>,
}

impl PosthasteBuilder {
    pub(super) fn new(program: PathBuf) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            variables: BTreeMap::new(),
            data_dir: None,
        }
    }

    /// With this variable. Nothing that would configure it is inherited.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// With this further argument of `serve`.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With these roles only, separated by commas.
    pub fn role(self, roles: &str) -> Self {
        self.arg("--role").arg(roles)
    }

    /// On a data directory that the test keeps; otherwise it has one of its own.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Starts it and waits until it listens.
    pub async fn start(self) -> Posthaste {
        let data_dir = self.data_dir.map_or_else(
            || DataDir::Own(tempfile::tempdir().expect("a temporary folder")),
            DataDir::Given,
        );
        let client = reqwest::Client::builder().no_proxy().build();
        let mut posthaste = Posthaste {
            program: self.program,
            arguments: self.arguments,
            variables: self.variables,
            data_dir,
            child: None,
            port: 0,
            log: Log::default(),
            client: client.expect("an HTTP client"),
        };
        posthaste.start().await;
        posthaste
    }
}
