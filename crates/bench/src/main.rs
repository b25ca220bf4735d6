//! Measures Posthaste under load, with the real binary and a real SMTP conversation.
//!
//! Machines are noisy: compare figures of one run with each other, never with another day's.

mod amqp;
mod client;
mod cluster;
mod deliver;
mod lateness;
mod messages;
mod messages_chaos;
mod outage;
mod pages;
mod processor;
mod retry_message;
mod rig;
mod server;
mod slow_domain;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Measures Posthaste under load.
#[derive(Debug, Parser)]
#[command(name = "posthaste-bench")]
struct Arguments {
    #[command(flatten)]
    binary: Binary,
    #[command(subcommand)]
    command: Command,
}

/// What is measured.
#[derive(Debug, Args)]
struct Binary {
    /// The posthaste binary; the one beside this program if left out
    #[arg(long, global = true)]
    binary: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// HTTP in, SMTP out: accepted and delivered per second, peak memory
    Deliver(deliver::Load),
    /// How late retries are sent that fall due one after the other
    Lateness(lateness::Load),
    /// Many processes on PostgreSQL and RabbitMQ under load, killed and cut off all the time:
    /// nothing may be lost, nothing may be sent twice in silence
    Cluster(Box<cluster::Options>),
    /// Failed messages of other services put back: how many in a second, how late, beside the
    /// least that PostgreSQL and RabbitMQ need for it
    Messages(Box<messages::Options>),
    /// Failed messages of other services while processes and servers crash all the time: nothing
    /// may be lost, nothing may be put back twice in silence
    MessagesChaos(Box<messages_chaos::Options>),
    /// An outage of the only mail server under waiting emails, with breakers and without: what it
    /// spends, what it kills, and how delivery takes up again
    Outage(Box<outage::Options>),
    /// One slow destination domain among many fast ones: how long emails to the fast ones take,
    /// with it and without it in turns
    SlowDomain(Box<slow_domain::Options>),
    /// How long every page takes to answer beside millions of emails in PostgreSQL
    Pages(pages::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let json = arguments.binary.json;
    let binary = arguments
        .binary
        .binary
        .map_or_else(server::beside_this_program, Ok)?;
    let report = match arguments.command {
        Command::Deliver(load) => deliver::run(&binary, &load).await?,
        Command::Lateness(load) => lateness::run(&binary, &load).await?,
        Command::Pages(options) => pages::run(&binary, &options).await?,
        Command::Cluster(options) => {
            let report = cluster::run(&binary, &options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            return Ok(report.exit_code());
        }
        Command::MessagesChaos(options) => {
            let report = messages_chaos::run(&binary, &options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            return Ok(report.exit_code());
        }
        Command::Outage(options) => {
            let report = outage::run(&binary, &options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            return Ok(report.exit_code());
        }
        Command::SlowDomain(options) => {
            let report = slow_domain::run(&binary, &options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            return Ok(report.exit_code());
        }
        Command::Messages(options) => {
            let report = messages::run(&binary, *options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            return Ok(report.exit_code());
        }
    };
    let text = if json {
        serde_json::to_string(&report)?
    } else {
        serde_json::to_string_pretty(&report)?
    };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
