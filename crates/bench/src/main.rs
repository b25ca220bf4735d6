//! Measures Posthaste under load, with the real binary and a real SMTP conversation.
//!
//! Machines are noisy: compare figures of one run with each other, never with another day's.

mod accept;
mod all;
mod amqp;
mod arbiter;
mod beside;
mod client;
mod cluster;
mod deliver;
mod evidence;
mod figures;
mod footprint;
mod ground;
mod history;
mod load;
mod messages;
mod messages_chaos;
mod outage;
mod pages;
mod plan;
mod processor;
mod reference;
mod retries;
mod retry_message;
mod rig;
mod server;
mod slow_domain;
mod torture;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::figures::{Outputs, Report};
use crate::rig::journal::Journal;

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
    /// Everything that is measured, one after the other
    All(Box<all::Options>),
    /// How fast emails are taken in, each on disk before its 202, beside the probe
    Accept {
        #[command(flatten)]
        choice: accept::Choice,
        #[command(flatten)]
        options: plan::Options,
    },
    /// HTTP in, SMTP out: emails taken in and delivered at the same time, and a backlog delivered,
    /// beside the probe
    Deliver {
        #[command(flatten)]
        choice: deliver::Choice,
        #[command(flatten)]
        options: plan::Options,
    },
    /// Retries that are due, claimed and published, beside the least that PostgreSQL and RabbitMQ
    /// need for it; and how late they are
    Retries(plan::Options),
    /// Many processes on PostgreSQL and RabbitMQ under load, killed and cut off all the time:
    /// nothing may be lost, nothing may be sent twice in silence
    Cluster(Box<cluster::Options>),
    /// Failed messages of other services put back: how many in a second, how late, beside the
    /// least that PostgreSQL and RabbitMQ need for it
    Messages(Box<messages::Options>),
    /// Failed messages of other services while processes and servers crash all the time: nothing
    /// may be lost, nothing may be put back twice in silence
    MessagesChaos(Box<messages_chaos::Options>),
    /// Processes killed at every step of an email's way while databases, brokers, networks, disks
    /// and mail servers fail: nothing may be lost, nothing may be sent twice in silence
    Torture(Box<torture::Options>),
    /// An outage of the only mail server under waiting emails, with breakers and without: what it
    /// spends, what it kills, and how delivery takes up again
    Outage(Box<outage::Options>),
    /// One slow destination domain among many fast ones: how long emails to the fast ones take,
    /// with it and without it in turns
    SlowDomain(Box<slow_domain::Options>),
    /// How long every page takes to answer beside millions of emails in PostgreSQL
    Pages(pages::Options),
    /// Memory with many emails queued, memory and processor time when idle, and cold starts
    Footprint(Box<footprint::Options>),
    /// What old rows cost: the same work beside none, 1 and 10 million emails that are over
    History(Box<history::Options>),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let json = arguments.binary.json;
    let binary = arguments
        .binary
        .binary
        .map_or_else(server::beside_this_program, Ok)?;
    let journal = Journal::new();
    let report = match arguments.command {
        Command::Accept { choice, options } => {
            let options = options.scaled();
            let measuring = accept::run(&binary, &options, &choice, &journal);
            let (section, facts) = rig::unless_interrupted(measuring).await?;
            return tell(&Report::new(vec![section], facts), &options.outputs, json);
        }
        Command::Deliver { choice, options } => {
            let options = options.scaled();
            let measuring = deliver::run(&binary, &options, &choice, &journal);
            let (section, facts) = rig::unless_interrupted(measuring).await?;
            return tell(&Report::new(vec![section], facts), &options.outputs, json);
        }
        Command::Retries(options) => {
            let options = options.scaled();
            let measuring = retries::run(&binary, &options, &journal);
            let (section, facts) = rig::unless_interrupted(measuring).await?;
            return tell(&Report::new(vec![section], facts), &options.outputs, json);
        }
        Command::All(mut options) => {
            options.plan = options.plan.scaled();
            let measuring = all::run(&binary, &options, &journal);
            let report = rig::unless_interrupted(measuring).await?;
            return tell(&report, &options.plan.outputs, json);
        }
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
        Command::Torture(options) => {
            let report = torture::run(&binary, &options).await?;
            let text = if json { report.json() } else { report.table() };
            writeln!(std::io::stdout(), "{text}")?;
            report.save(&options.files)?;
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
        Command::Footprint(options) => {
            let measuring = footprint::run(&binary, &options, &journal);
            let section = rig::unless_interrupted(measuring).await?;
            let report = Report::new(vec![section], BTreeMap::new());
            return tell(&report, &options.outputs, json);
        }
        Command::History(options) => {
            let measuring = history::run(&binary, &options, &journal);
            let section = rig::unless_interrupted(measuring).await?;
            let report = Report::new(vec![section], BTreeMap::new());
            return tell(&report, &options.outputs, json);
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

/// Tells what was found, in all forms that are wanted.
fn tell(report: &Report, outputs: &Outputs, json: bool) -> anyhow::Result<ExitCode> {
    let text = match json {
        true => report.json()?,
        false => report.table(),
    };
    writeln!(std::io::stdout(), "{text}")?;
    report.save(outputs)?;
    Ok(report.exit_code(outputs))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_subcommand_can_be_called() {
        Arguments::command().debug_assert();
    }
}
