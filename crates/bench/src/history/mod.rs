//! What old rows cost: the same work on databases that differ only in how many emails are over, in
//! turns, so that the machine's moods hit all of them alike.
//!
//! Rates are noisy and beside the point: what a past costs is processor time. With `--held`, another
//! question: whether half of the most that is possible is kept up with while a transaction elsewhere
//! keeps all dead rows from being removed.

mod held;
pub(crate) mod load;
pub(crate) mod past;
mod place;
mod round;

use std::path::Path;

use anyhow::ensure;
use clap::Args;
use posthaste_core::duration::HumanDuration;
use posthaste_sink::{Sink, SinkConfig};

use self::place::{Place, Places};
use self::round::{Measure, Sample};
use crate::figures::{Claim, Figure, Kind, Limit, Outputs, Section, Who};
use crate::messages::variable;
use crate::rig::journal::Journal;
use crate::rig::stand::Store;

/// What a past may cost, over none.
const LIMIT: Limit = Limit::AtMost(1.2);

/// How much past, and how much work beside it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// How many emails are over, in one database each; the first is what others are held against
    #[arg(long, value_delimiter = ',', default_value = "0,1000000,10000000")]
    rows: Vec<u64>,
    /// Where emails and tickets are kept
    #[arg(long, value_enum, default_value = "postgres")]
    store: Store,
    /// How often all take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many emails each measurement has
    #[arg(long, default_value_t = 12_000, value_parser = clap::value_parser!(u64).range(10..))]
    emails: u64,
    /// How many HTTP clients hand in at the same time
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The size of each body in octets
    #[arg(long, default_value_t = 4096)]
    body: usize,
    /// Instead of that, have a transaction elsewhere keep its snapshot for so long, while half of
    /// what is possible goes through
    #[arg(long, value_name = "TIME")]
    held: Option<HumanDuration>,
    /// Less of everything: to see that it works, not what it costs
    #[arg(long)]
    quick: bool,
    /// Use this PostgreSQL instead of a private one; schemas are made and dropped there
    #[arg(long, env = "TEST_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one; queues are made and deleted there
    #[arg(long, env = "TEST_RABBITMQ_URL", hide_env_values = true)]
    rabbitmq_url: Option<String>,
    /// A further variable of our processes, such as POSTHASTE_SENDER__CONNECTIONS=32
    #[arg(long = "env", value_parser = variable)]
    variables: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

impl Options {
    /// With less of everything, if that is wanted.
    fn scaled(&self) -> Self {
        let mut options = self.clone();
        if self.quick {
            options.rows = vec![0, 10_000];
            options.rounds = 1;
            options.emails = options.emails.min(500);
            options.held = options
                .held
                .map(|held| HumanDuration(held.0.min(std::time::Duration::from_secs(5))));
        }
        options
    }
}

/// Measures what is wanted.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    journal: &Journal,
) -> anyhow::Result<Section> {
    let options = options.scaled();
    ensure!(
        options.rows.len() > 1 || options.held.is_some(),
        "--rows needs a number to hold others against, as in 0,1000000"
    );
    match options.held {
        Some(held) => held::run(binary, &options, held.0, journal).await,
        None => costs(binary, &options, journal).await,
    }
}

async fn costs(binary: &Path, options: &Options, journal: &Journal) -> anyhow::Result<Section> {
    let sink = Sink::start(SinkConfig::default()).await?;
    let places = Places::prepare(binary, options, &sink, journal).await?;
    let work = round::Work {
        sink: &sink,
        load: load::Load::new(options.body, options.clients),
        emails: options.emails,
        postgres: places.postgres(),
        journal,
    };
    let measuring = async {
        let mut seen: Vec<Vec<(Measure, Sample)>> = vec![Vec::new(); places.all.len()];
        for number in 1..=options.rounds {
            for at in order(places.all.len(), number) {
                let place = &places.all[at];
                journal.line(&format!("round {number}: {} old emails", place.rows));
                seen[at].extend(work.round(place).await?);
            }
        }
        let mut notes = Vec::new();
        for place in &places.all {
            notes.extend(place.vacuumed().await?);
        }
        Ok((seen, notes))
    };
    let seen: anyhow::Result<_> = measuring.await;
    let section = seen.map(|(seen, notes)| {
        let mut section = section(options.store, &places.all, &seen);
        section.notes.extend(notes);
        section
    });
    places.clean().await?;
    section
}

/// Who comes when: each comes first once in a while.
fn order(places: usize, round: u32) -> Vec<usize> {
    let first = (round as usize - 1) % places.max(1);
    (0..places).map(|at| (first + at) % places).collect()
}

/// What was seen, and what was promised.
fn section(store: Store, places: &[Place], seen: &[Vec<(Measure, Sample)>]) -> Section {
    let title = format!("Cost beside old rows, {}", store.title());
    let mut section = Section::titled(&title);
    for place in places {
        let gib = place.size_bytes as f64 / 1024.0 / 1024.0 / 1024.0;
        let note = format!("{} old emails: {gib:.2} GiB on disk", place.rows);
        section.notes.push(note);
    }
    for measure in Measure::ALL {
        let figures = |of: &dyn Fn(&Sample) -> Option<f64>, what: &str, unit: &str| {
            let each = places.iter().zip(seen);
            let each = each.filter_map(|(place, seen)| {
                let own = seen.iter().filter(|(found, _)| *found == measure);
                let runs: Vec<f64> = own.filter_map(|(_, sample)| of(sample)).collect();
                let name = format!("{}, {} old: {what}", measure.name(), place.rows);
                let cost = Figure::cost(Kind::History, Who::Posthaste, &name, unit, runs);
                (!cost.runs.is_empty()).then_some(cost)
            });
            each.collect::<Vec<_>>()
        };
        let processor = figures(&|s| s.processor_us(), "processor", "us");
        let server = figures(&|s| s.server_us, "of it the server", "us");
        let wall = figures(&|s| Some(s.wall_us), "time", "us");
        let wal = figures(&|s| s.wal_bytes, "WAL", "octets");
        // Where processor time is too short to be seen, time it is.
        let judged = if processor.is_empty() {
            &wall
        } else {
            &processor
        };
        for (place, figure) in places.iter().zip(judged).skip(1) {
            let what = format!(
                "{}, {}: {} old emails over {}",
                measure.name(),
                store.title(),
                place.rows,
                places[0].rows
            );
            let claim = Claim::by_round(&what, figure, &judged[0], LIMIT);
            section.claims.push(claim);
        }
        for more in [processor, server, wall, wal] {
            section.figures.extend(more);
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_comes_first_in_turn() {
        assert_eq!(order(3, 1), [0, 1, 2]);
        assert_eq!(order(3, 2), [1, 2, 0]);
        assert_eq!(order(3, 4), [0, 1, 2]);
    }
}
