//! Retries: how fast rows that are due are claimed and published with confirms, beside the least
//! that PostgreSQL and RabbitMQ need for it, and how late they are at half that rate.
//!
//! Emails are taken in as always. That an attempt failed is then written into their rows, because
//! failing so many for real would take longer than everything else.

mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use self::rows::Rows;
use crate::amqp::{QueueType, Rabbit};
use crate::figures::{Claim, Figure, Kind, Latency, Limit, Section, Who, median};
use crate::ground::{Contender, Ground, Part, Room, Round, Series, in_turns};
use crate::load::{Pace, Until};
use crate::plan::Options;
use crate::processor::Reading;
use crate::reference::Reference;
use crate::rig::journal::Journal;
use crate::rig::stand::Store;

/// As the reference is said to be fastest.
const QUEUES: QueueType = QueueType::Quorum;
const WORKERS: usize = 2;
/// How many rows the reference claims from.
const REFERENCE_ROWS: u64 = 1_000_000;
/// When everything must be published.
const PATIENCE: Duration = Duration::from_secs(120);
/// Rows are due so long after they were written at the earliest: the process has started by then.
const LEAD: Duration = Duration::from_secs(5);
const RATE: Limit = Limit::AtLeast(0.7);
/// Milliseconds.
const LATENESS: Limit = Limit::AtMost(100.0);

/// Runs alone.
pub(crate) async fn run(
    binary: &Path,
    options: &Options,
    journal: &Journal,
) -> anyhow::Result<(Section, BTreeMap<String, String>)> {
    let ground = Ground::prepare(binary, options, journal, &[Store::Rabbitmq]).await?;
    let section = measure(&ground).await;
    let facts = ground.facts().await?;
    ground.clean().await?;
    Ok((section?, facts))
}

/// Measures us and the reference in turns, then how late we are.
pub(crate) async fn measure(ground: &Ground<'_>) -> anyhow::Result<Section> {
    let options = ground.options;
    let services = ground.services()?;
    let mut room = ground.room(Store::Rabbitmq).await?;
    room.queue_type = Some(QUEUES);
    let rows = prepare(ground, &room).await?;
    ground.journal.line("filling the table of the reference");
    let reference_rows = match options.quick {
        true => REFERENCE_ROWS / 10,
        false => REFERENCE_ROWS,
    };
    let (beside, name) = (options.beside.as_deref(), room.queue("reference"));
    let servers = ground.servers();
    let reference = Reference::set_up(services, servers, &name, beside, reference_rows).await?;
    let (mut ours, mut theirs) = (Series::default(), Series::default());
    for round in 0..options.rounds {
        for place in in_turns(round, 2) {
            if place == 1 {
                ours.push(backlog(ground, &room, &rows).await?);
                continue;
            }
            let (rate, usage) = reference.measure(QUEUES, WORKERS, options.time.0).await?;
            ground.journal.line(&format!(
                "retries, probe: {rate:.0}/s; cpu % {}",
                usage.percent()
            ));
            theirs.push(Round {
                rate,
                latency: None,
                usage,
                bytes: None,
            });
        }
    }
    let name = "quorum queues";
    let figure = |series: &Series, who| series.figure(Kind::Retries, who, name, "retry/s");
    let (ours, theirs) = (figure(&ours, Who::Posthaste), figure(&theirs, Who::Probe));
    let mut section = Section::titled("Retries");
    let what = "retries claimed and published, of the probe's rate on quorum queues";
    section
        .claims
        .push(Claim::by_round(what, &ours, &theirs, RATE));
    let half = ours.median() / 2.0;
    section.figures.extend([ours, theirs]);
    lateness(ground, &room, &rows, half, &mut section).await?;
    reference.clean().await?;
    room.leave(ground).await?;
    Ok(section)
}

/// Takes emails in, and forgets the tickets.
async fn prepare(ground: &Ground<'_>, room: &Room) -> anyhow::Result<Rows> {
    let (options, count) = (ground.options, ground.options.backlog);
    ground
        .journal
        .line(&format!("taking {count} emails in for retries"));
    let us = Contender::Posthaste(Store::Rabbitmq);
    let intake = us.start(ground, room, Part::Accept).await?;
    let load = intake.load(options.clients, Until::Count(count), Pace::Closed);
    load.run().await?;
    intake.shut_down().await?;
    Rows::of(room, count).await
}

/// All rows due at once: from a tenth of them to all, by what is in the queue.
async fn backlog(ground: &Ground<'_>, room: &Room, rows: &Rows) -> anyhow::Result<Round> {
    let rabbit = ground.rabbit().await?;
    let queue = room.queue("retry");
    rows.fail_all_due_now(room).await?;
    let log = room.log_bytes().await?;
    let us = Contender::Posthaste(Store::Rabbitmq);
    let subject = us.start(ground, room, Part::Schedule).await?;
    let first = published(&rabbit, &queue, rows.count / 10).await?;
    let began = Instant::now();
    let reading = Reading::of(&ground.groups(&subject, None));
    let last = published(&rabbit, &queue, rows.count).await?;
    let time = began.elapsed();
    let usage = reading.until_now();
    ensure!(
        last == rows.count,
        "{last} tickets were published for {} retries",
        rows.count
    );
    let bytes = (room.log_bytes().await? - log) / rows.count as f64;
    subject.shut_down().await?;
    rabbit.purge(&queue).await?;
    let rate = (last - first) as f64 / time.as_secs_f64();
    ground.journal.line(&format!(
        "retries, Posthaste: {rate:.0}/s; cpu % {}",
        usage.percent()
    ));
    Ok(Round {
        rate,
        latency: None,
        usage,
        bytes: Some(("WAL", bytes)),
    })
}

/// Waits until so many tickets are in the queue; how many there are.
async fn published(rabbit: &Rabbit, queue: &str, count: u64) -> anyhow::Result<u64> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let depth = rabbit.depth(queue).await?;
        if depth >= count {
            return Ok(depth);
        }
        ensure!(
            Instant::now() < give_up,
            "only {depth} of {count} retries were published"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Rows that fall due evenly, at this rate.
async fn lateness(
    ground: &Ground<'_>,
    room: &Room,
    rows: &Rows,
    rate: f64,
    section: &mut Section,
) -> anyhow::Result<()> {
    let rabbit = ground.rabbit().await?;
    let queue = room.queue("retry");
    let us = Contender::Posthaste(Store::Rabbitmq);
    let mut all = Vec::new();
    let mut p99 = Vec::new();
    for _ in 0..ground.options.rounds {
        rows.fail_due_evenly(room, LEAD, rate).await?;
        let subject = us.start(ground, room, Part::Schedule).await?;
        published(&rabbit, &queue, rows.count).await?;
        subject.shut_down().await?;
        let latency = rows.lateness().await?;
        rabbit.purge(&queue).await?;
        ground.journal.line(&format!(
            "retries at {rate:.0}/s: p50 {:.1} ms late, p99 {:.1} ms, at most {:.1} ms",
            latency.p50_ms, latency.p99_ms, latency.max_ms
        ));
        p99.push(latency.p99_ms);
        all.push(latency);
    }
    all.sort_by(|a: &Latency, b| a.p99_ms.total_cmp(&b.p99_ms));
    let middle = *all.get(all.len() / 2).context("no round")?;
    let name = "lateness p99 at half that rate";
    let (kind, who) = (Kind::Retries, Who::Posthaste);
    let figure = Figure::cost(kind, who, name, "ms", p99.clone());
    let note = format!("{rate:.0} retries in a second, due one after the other");
    section
        .figures
        .push(figure.with_latency(middle).with_note(note));
    let what = "lateness p99 of retries at half that rate";
    let claim = Claim::of_value(what, median(&p99), "ms", LATENESS);
    section.claims.push(claim);
    Ok(())
}
