//! What a run is made of.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use posthaste_core::duration::HumanDuration;

use crate::amqp::QueueType;

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The reference, and how fast a backlog is put back
    Drain,
    /// Messages that are handed in, kept and put back all at the same time
    Live,
    /// How fast a backlog is put back beside many messages that are not due
    History,
}

/// How much of everything.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many messages a backlog has
    #[arg(long, default_value_t = 100_000)]
    pub(super) rows: u64,
    /// How often the reference and the backlog take turns
    #[arg(long, default_value_t = 3)]
    pub(super) rounds: u32,
    /// For how long the reference runs each time
    #[arg(long, default_value = "3s")]
    pub(super) reference_time: HumanDuration,
    /// For how long messages are handed in to see how late they are
    #[arg(long, default_value = "20s")]
    pub(super) time: HumanDuration,
    /// For how long each rate is tried
    #[arg(long, default_value = "10s")]
    pub(super) step_time: HumanDuration,
    /// How many rates are tried at most
    #[arg(long, default_value_t = 5)]
    pub(super) steps: u32,
    /// How long before they are due messages are handed in; longer than delay and jitter
    #[arg(long, default_value = "4s")]
    pub(super) lead: HumanDuration,
    /// The rate at which lateness is looked at; a quarter of the reference if left out
    #[arg(long)]
    pub(super) rate: Option<f64>,
    /// The size of each payload in octets
    #[arg(long, default_value_t = 256)]
    pub(super) payload: usize,
    /// How many messages that are not due are beside the backlog
    #[arg(long, default_value_t = 1_000_000)]
    pub(super) history: u64,
    /// Which kind of queue everyone uses
    #[arg(long, value_enum, default_value = "classic")]
    pub(super) queue_type: QueueType,
    /// Before each measurement, wait at most so long for others to leave the processors alone
    #[arg(long, default_value = "10s")]
    pub(super) calm: HumanDuration,
    /// Only some parts
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) parts: Vec<Part>,
    /// Less of everything: to see that it works, not how fast
    #[arg(long)]
    pub(super) quick: bool,
    /// Run the `pg_bench` in this folder for the reference instead of our own
    #[arg(long, value_name = "FOLDER")]
    pub(super) beside: Option<PathBuf>,
    /// Use this PostgreSQL instead of a private one; a schema is made and dropped there
    #[arg(long, env = "TEST_DATABASE_URL")]
    pub(super) database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one; queues are made and deleted there
    #[arg(long, env = "TEST_RABBITMQ_URL")]
    pub(super) rabbitmq_url: Option<String>,
    /// A further variable of the process, such as POSTHASTE_MESSAGES__PREFETCH=2000
    #[arg(long = "env", value_parser = variable)]
    pub(super) variables: Vec<(String, String)>,
}

impl Options {
    /// With less of everything, if that is wanted.
    pub(super) fn scaled(mut self) -> Self {
        if self.quick {
            let seconds = |time: &mut HumanDuration, most: u64| {
                time.0 = time.0.min(Duration::from_secs(most));
            };
            self.rows = self.rows.min(20_000);
            self.rounds = self.rounds.min(1);
            self.steps = self.steps.min(1);
            self.history = self.history.min(100_000);
            seconds(&mut self.reference_time, 1);
            seconds(&mut self.time, 8);
            seconds(&mut self.step_time, 8);
        }
        self
    }

    /// Whether the reference is needed.
    pub(super) fn needs_reference(&self) -> bool {
        self.wants(Part::Drain) || (self.wants(Part::Live) && self.rate.is_none())
    }

    /// Whether a part is wanted.
    pub(super) fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
