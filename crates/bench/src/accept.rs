//! How fast emails are taken in, each on disk before its 202, while nothing is delivered.

use std::path::Path;

use anyhow::ensure;
use clap::Args;

use crate::amqp::QueueType;
use crate::figures::{Claim, Kind, Limit, Section, Who};
use crate::ground::{Contender, Ground, Part, Round, Series, in_turns};
use crate::load::{Loaded, Pace, Until};
use crate::plan::Options;
use crate::processor::Reading;
use crate::rig::journal::Journal;
use crate::rig::stand::Store;

/// On these.
pub(crate) const STORES: [Store; 2] = [Store::Sqlite, Store::Postgres];
/// Of the slower rate of both, when both get the same load.
const SHARE: f64 = 0.5;
/// At least so much of the probe's rate.
const RATE: Limit = Limit::AtLeast(0.6);
/// At most so much of the probe's 99th percentile.
const P99: Limit = Limit::AtMost(1.5);

/// What emails are taken in on.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Choice {
    /// Only on these stores: sqlite, postgres
    #[arg(long, value_enum, value_delimiter = ',')]
    store: Vec<Store>,
}

/// Runs alone.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    choice: &Choice,
    journal: &Journal,
) -> anyhow::Result<(Section, std::collections::BTreeMap<String, String>)> {
    ensure!(
        !choice.store.contains(&Store::Rabbitmq),
        "--store rabbitmq: tickets have no part in taking in; say postgres"
    );
    let stores = match &*choice.store {
        [] => &STORES,
        chosen => chosen,
    };
    let ground = Ground::prepare(binary, options, journal, stores).await?;
    let section = measure(&ground, stores).await;
    let facts = ground.facts().await?;
    ground.clean().await?;
    Ok((section?, facts))
}

/// Measures everyone on these stores.
pub(crate) async fn measure(ground: &Ground<'_>, stores: &[Store]) -> anyhow::Result<Section> {
    let mut section = Section::titled("Accept");
    for store in stores {
        measure_store(ground, *store, &mut section).await?;
    }
    if ground.programs().is_some() {
        let mut series = Series::default();
        for _ in 0..ground.options.rounds {
            series.push(one(ground, Contender::Nothing, Pace::Closed).await?);
        }
        let name = Contender::Nothing.name();
        let figure = series.figure(Kind::Accept, Who::Probe, name, "email/s");
        let note = "HTTP and JSON only: the most that the load can do";
        section.figures.push(figure.with_note(note));
    } else {
        section.notes.push("no probe without --beside".to_owned());
    }
    Ok(section)
}

async fn measure_store(
    ground: &Ground<'_>,
    store: Store,
    section: &mut Section,
) -> anyhow::Result<()> {
    let mut contenders = vec![Contender::Posthaste(store)];
    if ground.programs().is_some() {
        contenders.push(Contender::Probe(store, QueueType::Classic));
    }
    let mut closed = vec![Series::default(); contenders.len()];
    let mut paced = vec![Series::default(); contenders.len()];
    for number in 0..ground.options.rounds {
        let order = in_turns(number, contenders.len());
        let mut slowest = f64::INFINITY;
        for &place in &order {
            let round = one(ground, contenders[place], Pace::Closed).await?;
            slowest = slowest.min(round.rate);
            closed[place].push(round);
        }
        let pace = Pace::PerSecond(slowest * SHARE);
        for place in order {
            paced[place].push(one(ground, contenders[place], pace).await?);
        }
    }
    let (kind, unit) = (Kind::Accept, "email/s");
    let name = match store {
        Store::Sqlite => "SQLite",
        Store::Postgres | Store::Rabbitmq => "PostgreSQL",
    };
    for (contender, series) in contenders.iter().zip(&closed) {
        let figure = series.figure(kind, contender.who(), name, unit);
        section.figures.push(figure);
    }
    for (contender, series) in contenders.iter().zip(&paced) {
        let name = format!("{name}, p99 at the same rate");
        let figure = series.p99_figure(kind, contender.who(), &name);
        section.figures.push(figure);
    }
    let ours = section.figure(kind, &Who::Posthaste, name);
    let theirs = section.figure(kind, &Who::Probe, name);
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        let what = format!("accept on {name}, of the probe's rate");
        let claim = Claim::by_round(&what, ours, theirs, RATE);
        section.claims.push(claim);
        for (how, all) in [("as fast as can be", &closed), ("at the same rate", &paced)] {
            let (ours, theirs) = (all[0].p99_ms(), all[1].p99_ms());
            let ratios = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
            let what = format!("accept on {name}, p99 of the probe's, {how}");
            section
                .claims
                .push(Claim::of_rounds(&what, ratios, "×", P99));
        }
    }
    Ok(())
}

/// One round of one contender, on an empty database.
async fn one(ground: &Ground<'_>, contender: Contender, pace: Pace) -> anyhow::Result<Round> {
    let options = ground.options;
    let room = ground.room(contender.store()).await?;
    let subject = contender.start(ground, &room, Part::Accept).await?;
    let load = |time, pace| subject.load(options.clients, Until::Time(time), pace).run();
    load(options.warm_up.0, pace).await?;
    let groups = ground.groups(&subject, None);
    let log = room.log_bytes().await?;
    let written = subject.written_bytes()?;
    let reading = Reading::of(&groups);
    let loaded: Loaded = load(options.time.0, pace).await?;
    let usage = reading.until_now();
    let each = |bytes: f64| bytes / loaded.accepted.max(1) as f64;
    let bytes = match contender.store() {
        Store::Sqlite => ("disk", each(subject.written_bytes()? - written)),
        Store::Postgres | Store::Rabbitmq => ("WAL", each(room.log_bytes().await? - log)),
    };
    subject.stop().await?;
    room.leave(ground).await?;
    let round = Round {
        rate: loaded.rate(),
        latency: Some(loaded.histogram.latency()),
        usage,
        bytes: Some(bytes),
    };
    let who = contender.who();
    let how = match pace {
        Pace::Closed => "",
        Pace::PerSecond(_) => ", paced",
    };
    ground.journal.line(&format!(
        "accept, {}, {}{how}: {:.0}/s, p99 {:.1} ms; cpu % {}",
        who.name(),
        contender.name(),
        round.rate,
        loaded.histogram.percentile_ms(0.99),
        round.usage.percent()
    ));
    Ok(round)
}
