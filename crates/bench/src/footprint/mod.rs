//! What it needs when there is little to do, and when there is much: memory with many emails queued
//! and over many emails, memory and processor time when idle, and the time from a cold start until
//! it is ready.

mod idle;
mod memory;
pub(crate) mod process;
mod start;

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use posthaste_core::duration::HumanDuration;

use self::process::Start;
use crate::figures::{Figure, Kind, Outputs, Section, Who};
use crate::messages::variable;
use crate::rig::journal::Journal;
use crate::rig::services::{Given, Services};

/// PostgreSQL as it is set up for every measurement.
pub(crate) const POSTGRES: [(&str, &str); 3] = [
    ("shared_buffers", "2GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
];

/// A part that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Memory and processor time with nothing to do
    Idle,
    /// Memory with many emails queued
    Queued,
    /// Memory while very many emails go through
    Flow,
    /// From a cold start until it is ready
    Start,
}

/// How much of everything.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only these parts; all if left out
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// How many emails are queued at the same time
    #[arg(long, default_value_t = 100_000)]
    queued: u64,
    /// How many emails go through in all
    #[arg(long, default_value_t = 1_000_000)]
    emails: u64,
    /// The size of each body in octets
    #[arg(long, default_value_t = 4096)]
    body: usize,
    /// For how long nothing is done
    #[arg(long, default_value = "30s")]
    idle: HumanDuration,
    /// How many emails the database has at a cold start
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// How often it is started
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Less of everything: to see that it works, not how much it needs
    #[arg(long)]
    quick: bool,
    /// Use this PostgreSQL instead of a private one; a schema is made and dropped there
    #[arg(long, env = "TEST_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one
    #[arg(long, env = "TEST_RABBITMQ_URL", hide_env_values = true)]
    rabbitmq_url: Option<String>,
    /// A further variable of our processes, such as POSTHASTE_SENDER__CONNECTIONS=32
    #[arg(long = "env", value_parser = variable)]
    variables: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

impl Options {
    /// How much of everything, in a short run or a long one.
    fn amounts(&self) -> Amounts {
        let all = Amounts {
            queued: self.queued,
            emails: self.emails,
            body: self.body,
            idle: self.idle.0,
            rows: self.rows,
            starts: self.starts,
        };
        if !self.quick {
            return all;
        }
        Amounts {
            queued: all.queued.min(2_000),
            emails: all.emails.min(5_000),
            idle: all.idle.min(Duration::from_secs(1)),
            rows: all.rows.min(10_000),
            starts: all.starts.min(3),
            ..all
        }
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    queued: u64,
    emails: u64,
    body: usize,
    idle: Duration,
    rows: u64,
    starts: u32,
}

/// Measures what is wanted.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    journal: &Journal,
) -> anyhow::Result<Section> {
    let binary = binary.canonicalize()?;
    let amounts = options.amounts();
    let folder = tempfile::tempdir()?;
    let start = Start::new(&binary, folder.path()).with_all(&options.variables);
    let mut section = Section::titled("Memory, idle and start");
    if options.wants(Part::Queued) {
        memory::queued(&start, amounts, journal, &mut section).await?;
    }
    let needs_servers = options.wants(Part::Idle) || options.wants(Part::Start);
    if needs_servers {
        let given = Given {
            database_url: options.database_url.clone(),
            rabbitmq_url: options.rabbitmq_url.clone(),
            without_rabbitmq: !options.wants(Part::Idle),
        };
        let run = format!("footprint_{}", std::process::id());
        let services = Services::start(&given, folder.path(), &run).await?;
        services.configure_postgres(&POSTGRES).await?;
        let measured = async {
            if options.wants(Part::Idle) {
                idle::measure(&start, &services, amounts, journal, &mut section).await?;
            }
            if options.wants(Part::Start) {
                start::measure(&start, &services, amounts, journal, &mut section).await?;
            }
            anyhow::Ok(())
        };
        let measured = measured.await;
        services.clean().await?;
        measured?;
    }
    if options.wants(Part::Flow) {
        memory::flow(&start, amounts, journal, &mut section).await?;
    }
    Ok(section)
}

/// One figure of ours.
fn cost(name: &str, unit: &str, runs: Vec<f64>) -> Figure {
    Figure::cost(Kind::Footprint, Who::Posthaste, name, unit, runs)
}
