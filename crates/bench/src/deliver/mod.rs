//! HTTP in, SMTP out: emails taken in and delivered at the same time, or a backlog delivered. The
//! sink is the arbiter: an email counts when its final dot was answered 250.

mod claims;
mod drain;
mod live;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use crate::amqp::QueueType;
use crate::beside;
use crate::figures::{Kind, Section};
use crate::ground::{Contender, Ground, Series, in_turns};
use crate::plan::Options;
use crate::rig::journal::Journal;
use crate::rig::stand::Store;

/// What is delivered, and on what.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Choice {
    /// Only on these stores
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) store: Vec<Store>,
    /// Only a backlog that is there before
    #[arg(long, conflicts_with = "live")]
    pub(crate) drain: bool,
    /// Only emails that are taken in at the same time
    #[arg(long)]
    pub(crate) live: bool,
}

impl Choice {
    /// The stores.
    pub(crate) fn stores(&self) -> Vec<Store> {
        match self.store.is_empty() {
            true => vec![Store::Sqlite, Store::Postgres, Store::Rabbitmq],
            false => self.store.clone(),
        }
    }
}

/// Runs alone.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    choice: &Choice,
    journal: &Journal,
) -> anyhow::Result<(Section, BTreeMap<String, String>)> {
    let ground = Ground::prepare(binary, options, journal, &choice.stores()).await?;
    let section = measure(&ground, choice).await;
    let facts = ground.facts().await?;
    ground.clean().await?;
    Ok((section?, facts))
}

/// Measures everyone, and holds us against them.
pub(crate) async fn measure(ground: &Ground<'_>, choice: &Choice) -> anyhow::Result<Section> {
    let mut section = Section::titled("Deliver");
    for store in choice.stores() {
        if !choice.drain {
            take_turns(ground, Kind::Live, store, &mut section).await?;
        }
        if !choice.live {
            take_turns(ground, Kind::Drain, store, &mut section).await?;
        }
    }
    claims::beside_the_probe(&mut section);
    beside::measure(ground, &mut section).await?;
    beside::hold_against(&mut section);
    if ground.programs().is_none() {
        section.notes.push("no probe without --beside".to_owned());
    }
    Ok(section)
}

/// Everyone on one store, in turns.
async fn take_turns(
    ground: &Ground<'_>,
    kind: Kind,
    store: Store,
    section: &mut Section,
) -> anyhow::Result<()> {
    let mut contenders = vec![Contender::Posthaste(store)];
    if kind == Kind::Live && ground.programs().is_some() {
        let probe = |kind| Contender::Probe(store, kind);
        match store {
            Store::Sqlite => contenders.push(probe(QueueType::Classic)),
            // It has no such mode.
            Store::Postgres => {}
            Store::Rabbitmq => {
                contenders.extend([QueueType::Classic, QueueType::Quorum].map(probe));
            }
        }
    }
    let mut all = vec![Series::default(); contenders.len()];
    for round in 0..ground.options.rounds {
        for place in in_turns(round, contenders.len()) {
            let contender = contenders[place];
            all[place].push(match kind {
                Kind::Drain => drain::one(ground, contender).await?,
                _ => live::one(ground, contender).await?,
            });
        }
    }
    for (contender, series) in contenders.iter().zip(&all) {
        let figure = series.figure(kind, contender.who(), contender.name(), "email/s");
        section.figures.push(figure);
    }
    Ok(())
}
