//! Everything in sequence, on the same servers.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::figures::{Report, Section};
use crate::ground::Ground;
use crate::plan;
use crate::rig::journal::Journal;
use crate::rig::stand::Store;
use crate::{accept, deliver, footprint, history, messages, retries};

/// How long a transaction elsewhere keeps its snapshot.
const HELD: &str = "10m";

/// What is measured, and how much of everything.
#[derive(Debug, Clone, Args)]
#[group(id = "all")]
pub(crate) struct Options {
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    pub(crate) plan: plan::Options,
}

/// A subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Emails taken in
    Accept,
    /// Emails delivered, beside the peers
    Deliver,
    /// Retries
    Retries,
    /// Messages of other services
    Messages,
    /// Cost beside old rows
    History,
    /// Memory, idle and start
    Footprint,
}

const ALL: [Part; 6] = [
    Part::Accept,
    Part::Deliver,
    Part::Retries,
    Part::Messages,
    Part::History,
    Part::Footprint,
];

/// Measures everything that is wanted.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    journal: &Journal,
) -> anyhow::Result<Report> {
    let stores = [Store::Sqlite, Store::Postgres, Store::Rabbitmq];
    let ground = Ground::prepare(binary, &options.plan, journal, &stores).await?;
    let measuring = async {
        let mut sections = Vec::new();
        for part in ALL {
            if options.only.is_empty() || options.only.contains(&part) {
                sections.extend(measure(&ground, part).await?);
            }
        }
        anyhow::Ok(sections)
    };
    let sections = measuring.await;
    let facts = ground.facts().await?;
    ground.clean().await?;
    Ok(Report::new(sections?, facts))
}

async fn measure(ground: &Ground<'_>, part: Part) -> anyhow::Result<Vec<Section>> {
    let Ground {
        binary, journal, ..
    } = *ground;
    let words = words(ground)?;
    let words_and = |more: &[&str]| [words.clone(), more.iter().map(|w| (*w).into()).collect()];
    let is_quick = ground.options.quick;
    Ok(vec![match part {
        Part::Accept => accept::measure(ground, &accept::STORES).await?,
        Part::Deliver => deliver::measure(ground, &deliver::Choice::default()).await?,
        Part::Retries => retries::measure(ground).await?,
        Part::Messages => {
            let few: &[&str] = match is_quick {
                true => &["--parts", "drain", "--rows", "2000", "--calm", "0s"],
                false => &["--parts", "drain,live"],
            };
            let options = parsed(&words_and(few).concat())?;
            messages::run(binary, options).await?.section()
        }
        Part::History => {
            let options: history::Options = parsed(&words)?;
            let costs = history::run(binary, &options, journal).await?;
            if is_quick {
                return Ok(vec![costs]);
            }
            let held: history::Options = parsed(&words_and(&["--held", HELD]).concat())?;
            return Ok(vec![costs, history::run(binary, &held, journal).await?]);
        }
        Part::Footprint => {
            let options: footprint::Options = parsed(&words)?;
            footprint::run(binary, &options, journal).await?
        }
    }])
}

/// What the other subcommands are told: the same servers, and as much of everything.
fn words(ground: &Ground<'_>) -> anyhow::Result<Vec<String>> {
    let services = ground.services()?;
    let url = services.server_url().to_owned();
    let mut words = vec!["--database-url".to_owned(), url];
    if let Some(url) = &services.rabbitmq_url {
        words.extend(["--rabbitmq-url".to_owned(), url.clone()]);
    }
    for (name, value) in &ground.options.variables {
        words.extend(["--env".to_owned(), format!("{name}={value}")]);
    }
    if ground.options.quick {
        words.push("--quick".to_owned());
    }
    Ok(words)
}

/// The options of another subcommand, as if they were written after it.
fn parsed<T: Args>(words: &[String]) -> anyhow::Result<T> {
    let command = T::augment_args(clap::Command::new("part").no_binary_name(true));
    Ok(T::from_arg_matches(&command.try_get_matches_from(words)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_subcommands_understand_what_they_are_told() {
        let words = [
            "--database-url",
            "a",
            "--rabbitmq-url",
            "b",
            "--env",
            "A=B",
            "--quick",
        ];
        let words = words.map(str::to_owned);
        parsed::<messages::Options>(&words).expect("messages");
        parsed::<history::Options>(&words).expect("history");
        parsed::<footprint::Options>(&words).expect("footprint");
    }
}
