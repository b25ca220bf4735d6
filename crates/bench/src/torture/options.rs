//! What a run is made of.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use posthaste_core::duration::HumanDuration;

use crate::messages::variable;
use crate::rig::stand::Store;

/// What the processes work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Setup {
    /// A file, with the queue in the process
    Sqlite,
    /// PostgreSQL; senders claim from it
    Postgres,
    /// PostgreSQL, and tickets in RabbitMQ
    Rabbitmq,
    /// Each of them, one after the other
    All,
}

impl Setup {
    /// The stores, in order.
    pub(super) fn stores(self) -> Vec<Store> {
        match self {
            Self::Sqlite => vec![Store::Sqlite],
            Self::Postgres => vec![Store::Postgres],
            Self::Rabbitmq => vec![Store::Rabbitmq],
            Self::All => vec![Store::Sqlite, Store::Postgres, Store::Rabbitmq],
        }
    }
}

/// Where a report goes, besides the table on stdout.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Files {
    /// Write the report as JSON to this file too
    #[arg(long, value_name = "FILE")]
    pub(super) json_file: Option<PathBuf>,
    /// Write a table for documents to this file
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
}

/// How long, how hard, on what.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// What the processes work on
    #[arg(long, value_enum, default_value = "all")]
    pub(super) setup: Setup,
    /// Go on until so many processes were killed on each set-up
    #[arg(long, conflicts_with = "time")]
    pub(super) kills: Option<u64>,
    /// Go on for so long on each set-up; 1m if neither this nor --kills is given
    #[arg(long)]
    pub(super) time: Option<HumanDuration>,
    /// What is posted, who dies where, and which faults come in which order; any if left out
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// A short run of all set-ups, in less than three minutes
    #[arg(long, conflicts_with_all = ["kills", "time"])]
    pub(super) quick: bool,
    /// Instead: take RabbitMQ away for so long; every call must be answered well
    #[arg(long, conflicts_with_all = ["kills", "quick", "postgres_restarts", "soak"])]
    pub(super) rabbitmq_away: Option<HumanDuration>,
    /// Instead: crash PostgreSQL so many times; everything that was accepted must be there
    #[arg(long, conflicts_with_all = ["kills", "quick", "soak"])]
    pub(super) postgres_restarts: Option<u32>,
    /// Instead: mixed load for so long without any fault; memory, descriptors and tables must not
    /// go on growing. Ten minutes or more: PostgreSQL vacuums once a minute
    #[arg(long, conflicts_with_all = ["kills", "quick", "time"])]
    pub(super) soak: Option<HumanDuration>,
    /// How many emails are posted in a second
    #[arg(long, default_value_t = 60)]
    pub(super) rate: u32,
    /// How many HTTP clients post them
    #[arg(long, default_value_t = 16)]
    pub(super) clients: usize,
    /// How long it is between two kills, on average
    #[arg(long, default_value = "150ms")]
    pub(super) pace: HumanDuration,
    /// How long it is between two other faults, on average
    #[arg(long, default_value = "1s")]
    pub(super) gap: HumanDuration,
    /// When everything must be drained after the last fault
    #[arg(long, default_value = "3m")]
    pub(super) limit: HumanDuration,
    /// What the processes log
    #[arg(long, default_value = "warn")]
    pub(super) log: String,
    /// A further variable of every process, such as POSTHASTE_RETRY__ON_UNKNOWN=hold
    #[arg(long = "env", value_parser = variable)]
    pub(super) variables: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// What happens while emails are posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Kills and all other faults, until so many processes were killed or the time is over.
    Torture {
        kills: Option<u64>,
        time: Option<Duration>,
        /// Every fault once, even if that takes longer.
        every_fault: bool,
    },
    RabbitMqAway(Duration),
    PostgresRestarts(u32),
    Soak(Duration),
}

/// How long a short run breaks things on each set-up.
const QUICK: Duration = Duration::from_secs(20);
/// How long a run is of which nothing else is said.
const USUAL: Duration = Duration::from_secs(60);

impl Options {
    /// What happens.
    pub(super) fn script(&self) -> Script {
        match (self.rabbitmq_away, self.postgres_restarts, self.soak) {
            (Some(away), _, _) => Script::RabbitMqAway(away.0),
            (_, Some(times), _) => Script::PostgresRestarts(times),
            (_, _, Some(time)) => Script::Soak(time.0),
            _ => Script::Torture {
                kills: self.kills,
                time: match (self.quick, self.kills, self.time) {
                    (true, _, _) => Some(QUICK),
                    (_, Some(_), _) => None,
                    (_, None, time) => Some(time.map_or(USUAL, |time| time.0)),
                },
                every_fault: !self.quick,
            },
        }
    }

    /// The stores on which that can happen.
    pub(super) fn stores(&self) -> Vec<Store> {
        let mut stores = self.setup.stores();
        match self.script() {
            Script::RabbitMqAway(_) => stores.retain(|store| *store == Store::Rabbitmq),
            Script::PostgresRestarts(_) => stores.retain(|store| *store != Store::Sqlite),
            Script::Torture { .. } | Script::Soak(_) => {}
        }
        stores
    }

    /// The command that does the same again.
    pub(super) fn replay(&self, seed: u64) -> String {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        if self.seed.is_none() {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        format!("posthaste-bench {}", arguments.join(" "))
    }
}
