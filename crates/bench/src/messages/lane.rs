//! The process that is measured, its queues and its table.

use std::path::Path;

use anyhow::{Context as _, ensure};
use lapin::uri::AMQPUri;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_postgres::Client;

use super::options::Options;
use crate::amqp::Rabbit;
use crate::processor::Group;
use crate::rig::services::{AS_ANCHORS, Services};
use crate::server::Server;

/// What the process works with.
pub(super) struct Lane<'a> {
    binary: &'a Path,
    services: &'a Services,
    pub(super) rabbitmq_url: &'a str,
    pub(super) options: &'a Options,
    run: String,
    pub(super) database: Client,
    pub(super) rabbit: Rabbit,
    pub(super) servers: Vec<Group>,
}

impl<'a> Lane<'a> {
    /// Makes tables and queues.
    pub(super) async fn set_up(
        binary: &'a Path,
        services: &'a Services,
        options: &'a Options,
        run: &str,
    ) -> anyhow::Result<Self> {
        services.configure_postgres(AS_ANCHORS).await?;
        let rabbitmq_url = services.rabbitmq_url.as_deref().context("no RabbitMQ")?;
        let lane = Self {
            binary,
            services,
            rabbitmq_url,
            options,
            run: run.to_owned(),
            database: services.database().await?,
            rabbit: Rabbit::connect(rabbitmq_url).await?,
            servers: servers(&services.database_url, rabbitmq_url)?,
        };
        let mut command = Command::new(binary);
        command.arg("migrate").envs(lane.environment());
        let output = command.output().await?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "posthaste migrate: {complaint}");
        lane.rabbit
            .declare(&lane.original(), options.queue_type)
            .await?;
        Ok(lane)
    }

    fn queue(&self, what: &str) -> String {
        format!("{}.{what}", self.run)
    }

    /// Where messages come from and go back to.
    pub(super) fn original(&self) -> String {
        self.queue("original")
    }

    /// Where failures are handed in.
    pub(super) fn scheduled(&self) -> String {
        self.queue("scheduled")
    }

    fn environment(&self) -> Vec<(&str, String)> {
        let mut environment = vec![
            ("DATABASE_URL", self.services.database_url.clone()),
            ("RABBITMQ_URL", self.rabbitmq_url.to_owned()),
            ("RETRY_QUEUE", self.scheduled()),
            ("MANUAL_REVIEW_QUEUE", self.queue("review")),
            (
                "POSTHASTE_BROKER__QUEUE_TYPE",
                self.options.queue_type.name().to_owned(),
            ),
        ];
        let more = self.options.variables.iter();
        environment.extend(more.map(|(name, value)| (name.as_str(), value.clone())));
        environment
    }

    /// Starts the process.
    pub(super) async fn start(&self) -> anyhow::Result<Server> {
        Server::start(self.binary, &["--role", "messages"], &self.environment()).await
    }

    /// Everyone whose processor time is looked at.
    pub(super) fn groups(&self, server: &Server) -> anyhow::Result<Vec<Group>> {
        let mut groups = vec![Group::alone("posthaste", server.id()?)];
        groups.extend(&self.servers);
        groups.push(Group::alone("driver", std::process::id()));
        Ok(groups)
    }

    /// Deletes all queues.
    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        let queues = ["original", "scheduled", "review"].map(|what| self.queue(what));
        self.rabbit.delete(&queues).await
    }

    /// What the servers promise.
    pub(super) async fn facts(&self) -> anyhow::Result<Value> {
        let setting = async |name: &str| -> anyhow::Result<String> {
            let sql = format!("SHOW {name}");
            Ok(self.database.query_one(&sql, &[]).await?.try_get(0)?)
        };
        Ok(json!({
            "postgres": setting("server_version").await?,
            "fsync": setting("fsync").await?,
            "synchronous_commit": setting("synchronous_commit").await?,
            "shared_buffers": setting("shared_buffers").await?,
            "queue_type": self.options.queue_type.name(),
            "payload_bytes": self.options.payload,
        }))
    }
}

/// The servers, as far as they can be seen from here.
fn servers(database_url: &str, rabbitmq_url: &str) -> anyhow::Result<Vec<Group>> {
    let config: tokio_postgres::Config = database_url.parse()?;
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let uri: AMQPUri = rabbitmq_url.parse().map_err(anyhow::Error::msg)?;
    let postgres = Group::listening("postgres", port);
    let rabbitmq = Group::listening("rabbitmq", uri.authority.port);
    Ok(postgres.into_iter().chain(rabbitmq).collect())
}
