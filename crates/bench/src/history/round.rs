//! One place's turn: everything that could get dearer with a past, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use posthaste_sink::Sink;
use serde_json::Value;
use tokio_postgres::Client as Database;

use super::load::{Load, To};
use super::place::Place;
use crate::client::Client;
use crate::figures::median;
use crate::footprint::process::Process;
use crate::processor::{Group, Reading};
use crate::rig::journal::Journal;

/// How many emails fail each second, at least: those that failed wait until all did.
const FAILING_PER_SECOND: u64 = 750;
/// They wait longer on a slow machine, but not longer than this.
const LONGEST_DELAY: Duration = Duration::from_secs(64);
/// When everything must have arrived, or failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often each page is asked for.
const REQUESTS: usize = 30;
/// This share of a backlog is delivered before its measurement begins: starting is not draining.
const HEAD: f64 = 0.1;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Emails handed in while none are sent.
    Accept,
    /// Those delivered by a process that finds them.
    Drain,
    /// Emails handed in and delivered.
    Live,
    /// Failed emails that are all due, found and delivered.
    Retries,
    /// `GET /v1/stats`.
    Stats,
    /// `GET /metrics`.
    Metrics,
    /// The first page of the dashboard.
    Overview,
}

impl Measure {
    pub(super) const ALL: [Self; 7] = [
        Self::Accept,
        Self::Drain,
        Self::Live,
        Self::Retries,
        Self::Stats,
        Self::Metrics,
        Self::Overview,
    ];

    /// Its name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Drain => "claim and finish (drain)",
            Self::Live => "accept to delivered (live)",
            Self::Retries => "retries due",
            Self::Stats => "GET /v1/stats",
            Self::Metrics => "GET /metrics",
            Self::Overview => "overview page",
        }
    }
}

/// What each email, or each request, cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Time in all, divided by how many.
    pub(super) wall_us: f64,
    /// Processor time of our process.
    pub(super) server_us: Option<f64>,
    /// Processor time of PostgreSQL.
    pub(super) postgres_us: Option<f64>,
    /// What was written to its log.
    pub(super) wal_bytes: Option<f64>,
}

impl Sample {
    /// Processor time of both.
    pub(super) fn processor_us(&self) -> Option<f64> {
        Some(self.server_us? + self.postgres_us.unwrap_or(0.0))
    }

    fn text(&self) -> String {
        let us = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.0}"));
        format!(
            "{:.0} us, processor {} us (server {}, PostgreSQL {}), WAL {} octets",
            self.wall_us,
            us(self.processor_us()),
            us(self.server_us),
            us(self.postgres_us),
            us(self.wal_bytes),
        )
    }
}

/// What every turn works with.
pub(super) struct Work<'a> {
    pub(super) sink: &'a Sink,
    pub(super) load: Load,
    pub(super) emails: u64,
    pub(super) postgres: Option<Group>,
    pub(super) journal: &'a Journal,
}

/// A measurement under way.
struct Clock<'a> {
    began: Instant,
    reading: Reading,
    wal: Option<(&'a Database, i64)>,
}

impl<'a> Clock<'a> {
    async fn start(
        work: &Work<'_>,
        process: &Process,
        database: Option<&'a Database>,
    ) -> anyhow::Result<Self> {
        let mut groups = vec![Group::alone("posthaste", process.id()?)];
        groups.extend(work.postgres);
        let wal = match database {
            Some(database) => Some((database, written(database).await?)),
            None => None,
        };
        Ok(Self {
            wal,
            began: Instant::now(),
            reading: Reading::of(&groups),
        })
    }

    /// What each of so many cost.
    async fn stop(self, count: u64) -> anyhow::Result<Sample> {
        let wall = self.began.elapsed();
        let usage = self.reading.until_now();
        let count = count.max(1) as f64;
        let of = |at: usize| Some(usage.by_group.get(at)?.1 * 1e6 / count);
        let wal_bytes = match self.wal {
            Some((database, before)) => Some((written(database).await? - before) as f64 / count),
            None => None,
        };
        Ok(Sample {
            wall_us: wall.as_secs_f64() * 1e6 / count,
            server_us: of(0),
            postgres_us: of(1),
            wal_bytes,
        })
    }
}

/// How much PostgreSQL ever wrote to its log.
async fn written(database: &Database) -> anyhow::Result<i64> {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    Ok(database.query_one(sql, &[]).await?.try_get(0)?)
}

impl Work<'_> {
    /// Everything once.
    pub(super) async fn round(&self, place: &Place) -> anyhow::Result<Vec<(Measure, Sample)>> {
        let database = place.database().await?;
        let database = database.as_ref();
        let mut samples = vec![(Measure::Accept, self.accept(place, database).await?)];
        // What was accepted for warming up is there, too.
        let process = self.drain(place, database, &mut samples).await?;
        samples.push((Measure::Live, self.live(&process, database).await?));
        for (measure, path) in [
            (Measure::Stats, "/v1/stats"),
            (Measure::Metrics, "/metrics"),
            (Measure::Overview, "/admin"),
        ] {
            samples.push((measure, self.ask(&process, path).await?));
        }
        process.stop().await?;
        samples.push((Measure::Retries, self.retries(place, database).await?));
        for (measure, sample) in &samples {
            let text = sample.text();
            self.journal.line(&format!("  {}: {text}", measure.name()));
        }
        Ok(samples)
    }

    /// Emails before every measurement, which are not counted.
    const fn warm_up(&self) -> u64 {
        self.emails / 10
    }

    async fn accept(&self, place: &Place, database: Option<&Database>) -> anyhow::Result<Sample> {
        let process = place.start.clone().in_role("api").ready().await?;
        let address = &process.address;
        self.load
            .hand_in(address, self.warm_up(), To::People)
            .await?;
        let clock = Clock::start(self, &process, database).await?;
        self.load.hand_in(address, self.emails, To::People).await?;
        let sample = clock.stop(self.emails).await?;
        process.stop().await?;
        Ok(sample)
    }

    async fn drain(
        &self,
        place: &Place,
        database: Option<&Database>,
        samples: &mut Vec<(Measure, Sample)>,
    ) -> anyhow::Result<Process> {
        let backlog = self.warm_up() + self.emails;
        let before = self.sink.accepted();
        let process = place.start.ready().await?;
        let sample = self.drained(&process, database, before, backlog).await?;
        samples.push((Measure::Drain, sample));
        Ok(process)
    }

    /// Waits until a backlog has arrived that is being delivered already.
    async fn drained(
        &self,
        process: &Process,
        database: Option<&Database>,
        before: u64,
        backlog: u64,
    ) -> anyhow::Result<Sample> {
        let head = (backlog as f64 * HEAD) as u64;
        self.arrived(before + head).await?;
        let clock = Clock::start(self, process, database).await?;
        let head = self.sink.accepted() - before;
        self.arrived(before + backlog).await?;
        clock.stop(backlog.saturating_sub(head)).await
    }

    async fn live(&self, process: &Process, database: Option<&Database>) -> anyhow::Result<Sample> {
        let before = self.sink.accepted();
        let clock = Clock::start(self, process, database).await?;
        let address = &process.address;
        self.load.hand_in(address, self.emails, To::People).await?;
        self.arrived(before + self.emails).await?;
        clock.stop(self.emails).await
    }

    /// Emails that failed once, all of them due when a process begins to look.
    async fn retries(&self, place: &Place, database: Option<&Database>) -> anyhow::Result<Sample> {
        let mut delay = Duration::from_secs(self.retried().div_ceil(FAILING_PER_SECOND));
        loop {
            let before = self.sink.accepted();
            let start = place
                .start
                .clone()
                .with("BACKOFF_SCHEDULE", format!("{}s", delay.as_secs()));
            let process = start.ready().await?;
            if self.all_failed(&process, before).await? {
                let all_due = Instant::now() + delay;
                process.stop().await?;
                tokio::time::sleep_until(all_due.into()).await;
                let process = start.ready().await?;
                let sample = self.drained(&process, database, before, self.retried());
                let sample = sample.await?;
                process.stop().await?;
                return Ok(sample);
            }
            // The first were due again before the last had failed: a slow machine.
            self.arrived(before + self.retried()).await?;
            process.stop().await?;
            delay *= 2;
            ensure!(delay <= LONGEST_DELAY, "emails take too long to fail");
        }
    }

    /// Has emails fail once. The answer is whether none was tried again meanwhile.
    async fn all_failed(&self, process: &Process, before: u64) -> anyhow::Result<bool> {
        let address = &process.address;
        let wanted = failed(address).await? + self.retried();
        self.load
            .hand_in(address, self.retried(), To::RefusedOnce)
            .await?;
        let give_up = Instant::now() + PATIENCE;
        while failed(address).await? < wanted {
            if self.sink.accepted() > before {
                return Ok(false);
            }
            ensure!(Instant::now() < give_up, "not all failed once");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(self.sink.accepted() == before)
    }

    /// How many emails fail first.
    const fn retried(&self) -> u64 {
        self.emails.div_ceil(2)
    }

    /// How long an answer takes: the median of several. Processor time is too short to be seen.
    async fn ask(&self, process: &Process, path: &str) -> anyhow::Result<Sample> {
        let mut client = Client::connect(&process.address).await?;
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            let began = Instant::now();
            let (status, body) = client.get(path).await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
            ensure!(status == 200, "{path} is answered {status}: {body}");
        }
        Ok(Sample {
            wall_us: median(&times),
            server_us: None,
            postgres_us: None,
            wal_bytes: None,
        })
    }

    async fn arrived(&self, count: u64) -> anyhow::Result<()> {
        let arriving = tokio::time::timeout(PATIENCE, self.sink.wait_for(count));
        if arriving.await.is_err() {
            let missing = count.saturating_sub(self.sink.accepted());
            bail!(
                "{missing} emails did not arrive in {} s",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }
}

/// How many emails wait for another attempt.
async fn failed(address: &str) -> anyhow::Result<u64> {
    let mut client = Client::connect(address).await?;
    let (status, body) = client.get("/v1/stats").await?;
    ensure!(status == 200, "/v1/stats is answered {status}: {body}");
    let stats: Value = serde_json::from_str(&body)?;
    let found = &stats["emails"]["failed"];
    found.as_u64().with_context(|| format!("no number: {body}"))
}
