//! The message lane under load, beside the least that the same servers need for the same work.
//!
//! Everything shares this machine: PostgreSQL, RabbitMQ, the process, and the driver that hands
//! messages in and gets them back. So the yardstick is taken in the same run, in turns.

mod drain;
mod driver;
mod lane;
mod live;
mod memory;
mod options;
mod report;
mod search;
mod statements;

use std::path::Path;

use anyhow::Context as _;

pub(crate) use self::options::{Options, variable};
pub(crate) use self::report::Report;

use self::drain::Drained;
use self::lane::Lane;
use self::live::Load;
use self::memory::Memory;
use self::options::Part;
use self::report::{drain_line, load_average};
use self::statements::Statements;
use crate::amqp::QueueType;
use crate::processor::wait_for_calm;
use crate::reference::Reference;
use crate::rig;
use crate::rig::journal::Journal;
use crate::rig::services::{Given, Services};

/// How many rows the reference claims from.
const ROWS: u64 = 1_000_000;

/// Runs everything. Whatever was started is stopped in the end, also at Ctrl-C.
pub(crate) async fn run(binary: &Path, options: Options) -> anyhow::Result<Report> {
    rig::unless_interrupted(run_to_the_end(binary, &options.scaled())).await
}

async fn run_to_the_end(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let folder = tempfile::Builder::new()
        .prefix("posthaste-bench-")
        .tempdir()?;
    let journal = Journal::new();
    let run = format!("bench-{}", std::process::id());
    let given = Given {
        database_url: options.database_url.clone(),
        rabbitmq_url: options.rabbitmq_url.clone(),
        without_rabbitmq: false,
    };
    journal.line("starting the servers");
    let services = Services::start(&given, folder.path(), &run).await?;
    let lane = Lane::set_up(binary, &services, options, &run).await?;
    let mut bench = Bench {
        lane: &lane,
        reference: None,
        options,
        journal: &journal,
        report: Report {
            facts: lane.facts().await?,
            load_average: load_average(),
            queue_type: options.queue_type,
            ..Report::default()
        },
    };
    if options.needs_reference() {
        journal.line("filling the table of the reference");
        let beside = options.beside.as_deref();
        let rows = if options.quick { ROWS / 10 } else { ROWS };
        let reference = Reference::set_up(&services, &lane.servers, &run, beside, rows);
        bench.reference = Some(reference.await?);
    }
    if bench.reference.is_some() {
        bench.take_turns().await?;
    }
    if options.wants(Part::Live) {
        bench.live().await?;
    }
    if options.wants(Part::History) {
        bench.beside_history().await?;
    }
    let report = bench.report;
    lane.clean().await?;
    services.clean().await?;
    Ok(report)
}

/// A run.
struct Bench<'a> {
    lane: &'a Lane<'a>,
    reference: Option<Reference<'a>>,
    options: &'a Options,
    journal: &'a Journal,
    report: Report,
}

impl Bench<'_> {
    /// The reference and a backlog in turns.
    async fn take_turns(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.options.rounds {
            for queue_type in [QueueType::Classic, QueueType::Quorum] {
                self.measure_reference(queue_type).await?;
            }
            if self.options.wants(Part::Drain) {
                self.lane.forget().await?;
                let drained = self.drain().await?;
                self.report.drains.push(drained);
            }
        }
        Ok(())
    }

    async fn measure_reference(&mut self, queue_type: QueueType) -> anyhow::Result<()> {
        let Some(reference) = &self.reference else {
            return Ok(());
        };
        for workers in [1, 2] {
            let time = self.options.reference_time.0;
            wait_for_calm(self.options.calm.0).await;
            let (rate, usage) = reference.measure(queue_type, workers, time).await?;
            let name = queue_type.name();
            let each = usage.per_message(rate * time.as_secs_f64());
            self.journal.line(&format!(
                "reference, {name}, {workers} workers: {rate:.0}/s; us per message: {each}"
            ));
            let rates = &mut self.report.reference;
            rates.entry((name, workers)).or_default().push(rate);
        }
        Ok(())
    }

    /// The whole loop: the highest rate, and how late messages are at a moderate one.
    async fn live(&mut self) -> anyhow::Result<()> {
        let (lane, journal) = (self.lane, self.journal);
        let reference = self.report.reference_rate();
        let rate = self.options.rate.or(reference.map(|rate| rate / 4.0));
        let rate = rate.context("no rate")?;
        lane.forget().await?;
        let server = lane.start().await?;
        let watch = Memory::watch(server.id()?);
        let statements = Statements::begin(&lane.database).await;
        self.report.tries = lane.search(rate * 2.0, &server, journal).await?;
        if let Some(statements) = statements {
            let messages = self.report.tries.iter().map(|lived| lived.total);
            let messages: u64 = messages.sum();
            self.report.statements = statements
                .most_expensive(&lane.database, messages as f64)
                .await?;
        }
        let time = self.options.time.0;
        wait_for_calm(self.options.calm.0).await;
        let lived = lane.live(Load { rate, time }, &server, journal).await?;
        journal.line(&lived.line());
        self.report.lateness = Some(lived);
        self.report.memory = Some(watch.so_far());
        lane.settle_all().await?;
        server.stop().await?;
        self.measure_reference(self.options.queue_type).await
    }

    /// A backlog beside many messages that are not due, and without them before and after.
    async fn beside_history(&mut self) -> anyhow::Result<()> {
        let (lane, history) = (self.lane, self.options.history);
        lane.forget().await?;
        let before = self.drain().await?;
        lane.forget().await?;
        self.journal
            .line(&format!("storing {history} messages that are not due"));
        let due = "interval '1 day' + random() * interval '1 day'";
        lane.store(history, due).await?;
        self.report.history = vec![self.drain().await?, self.drain().await?];
        lane.forget().await?;
        self.report.without_history = vec![before, self.drain().await?];
        Ok(())
    }

    /// A backlog.
    async fn drain(&self) -> anyhow::Result<Drained> {
        let drained = self.lane.drain(self.journal).await?;
        self.journal.line(&drain_line(&drained));
        Ok(drained)
    }
}
