//! How much of everything a run does, and on which servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use posthaste_core::duration::HumanDuration;

use crate::amqp::QueueType;
use crate::figures::Outputs;
use crate::messages::variable;
use crate::rig::services::Given;
use crate::rig::stand::Store;

/// What all subcommands that measure rates have in common.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// How often everything takes turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// For how long each load lasts
    #[arg(long, default_value = "5s")]
    pub(crate) time: HumanDuration,
    /// How long each warm-up lasts
    #[arg(long, default_value = "1s")]
    pub(crate) warm_up: HumanDuration,
    /// How many HTTP connections the load has
    #[arg(long, default_value_t = 256)]
    pub(crate) clients: usize,
    /// How many SMTP connections our processes may have; as many as do best here if left out: 128
    /// on SQLite, 192 on PostgreSQL
    #[arg(long)]
    connections: Option<u64>,
    /// How many emails a backlog has
    #[arg(long, default_value_t = 40_000)]
    pub(crate) backlog: u64,
    /// Which kind of queue our own broker has; the product's default if left out
    #[arg(long, value_enum)]
    pub(crate) queue_type: Option<QueueType>,
    /// Before each measurement, wait at most so long for others to leave the processors alone
    #[arg(long, default_value = "0s")]
    pub(crate) calm: HumanDuration,
    /// Less of everything, and no peers: to see that it works, not how fast
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run the probe and the peers of this folder in the same run, and hold us against them
    #[arg(long, value_name = "FOLDER")]
    pub(crate) beside: Option<PathBuf>,
    /// Run the probe of that folder, but no peers
    #[arg(long, requires = "beside")]
    pub(crate) without_peers: bool,
    /// Use this PostgreSQL instead of a private one; schemas are made and dropped there
    #[arg(long, env = "TEST_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one; queues are made and deleted there
    #[arg(long, env = "TEST_RABBITMQ_URL", hide_env_values = true)]
    pub(crate) rabbitmq_url: Option<String>,
    /// A further variable of our processes, such as POSTHASTE_SENDER__CONNECTIONS=32
    #[arg(long = "env", value_parser = variable)]
    pub(crate) variables: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

impl Options {
    /// With less of everything, if that is wanted.
    pub(crate) fn scaled(mut self) -> Self {
        if self.quick {
            self.rounds = 1;
            self.time.0 = self.time.0.min(Duration::from_millis(300));
            self.warm_up.0 = self.warm_up.0.min(Duration::from_millis(100));
            self.clients = self.clients.min(64);
            self.backlog = self.backlog.min(1_000);
            self.without_peers = true;
        }
        self
    }

    /// How many SMTP connections our processes may have.
    pub(crate) fn connections(&self, store: Store) -> u64 {
        let best = match store {
            Store::Sqlite => 128,
            Store::Postgres | Store::Rabbitmq => 192,
        };
        self.connections.unwrap_or(best)
    }

    /// The servers that are given.
    pub(crate) fn given(&self) -> Given {
        Given {
            database_url: self.database_url.clone(),
            rabbitmq_url: self.rabbitmq_url.clone(),
            without_rabbitmq: false,
        }
    }
}
