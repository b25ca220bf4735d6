//! What a run is made of.

use clap::Args;
use posthaste_core::duration::HumanDuration;

use crate::messages::variable;

/// How many processes, how much load, which faults.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many emails
    #[arg(long, default_value_t = 50_000)]
    pub(super) emails: usize,
    /// How many processes with the role api
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) apis: u64,
    /// How many processes with the role sender
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) senders: u64,
    /// How many processes with the role scheduler
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) schedulers: u64,
    /// How many HTTP clients at the same time
    #[arg(long, default_value_t = 64)]
    pub(super) clients: usize,
    /// The size of each body in octets
    #[arg(long, default_value_t = 4096)]
    pub(super) body: usize,
    /// How many SMTP connections each sender has
    #[arg(long, default_value_t = 16)]
    pub(super) connections: u64,
    /// The share of emails whose first try fails transiently
    #[arg(long, default_value_t = 0.3)]
    pub(super) transient: f64,
    /// How often a process is killed; 0s for never
    #[arg(long, default_value = "2s")]
    pub(super) kill_every: HumanDuration,
    /// How often a process is frozen for longer than its leases last; 0s for never
    #[arg(long, default_value = "0s")]
    pub(super) freeze_every: HumanDuration,
    /// Killing goes on until all are accepted and this share is delivered
    #[arg(long, default_value_t = 0.9)]
    pub(super) kill_until: f64,
    /// How many times all queues are purged
    #[arg(long, default_value_t = 0, conflicts_with = "without_rabbitmq")]
    pub(super) purge: u32,
    /// Crash and restart RabbitMQ on the way
    #[arg(long, conflicts_with = "without_rabbitmq")]
    pub(super) restart_rabbitmq: bool,
    /// Crash and restart PostgreSQL on the way
    #[arg(long)]
    pub(super) restart_postgres: bool,
    /// For how long PostgreSQL is away
    #[arg(long, default_value = "3s")]
    pub(super) postgres_away: HumanDuration,
    /// Senders claim straight from PostgreSQL
    #[arg(long)]
    pub(super) without_rabbitmq: bool,
    /// Which processes die, and which emails fail first
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Use this PostgreSQL instead of a private one; a schema is made and dropped there
    #[arg(long, conflicts_with = "restart_postgres")]
    pub(super) database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one; queues are made and deleted there
    #[arg(long, conflicts_with_all = ["restart_rabbitmq", "without_rabbitmq"])]
    pub(super) rabbitmq_url: Option<String>,
    /// How long everything may take until it is drained
    #[arg(long, default_value = "15m")]
    pub(super) limit: HumanDuration,
    /// What the processes log
    #[arg(long, default_value = "warn")]
    pub(super) log: String,
    /// A further variable of every process, such as POSTHASTE_RETRY__ON_UNKNOWN=hold
    #[arg(long = "env", value_parser = variable)]
    pub(super) variables: Vec<(String, String)>,
}
