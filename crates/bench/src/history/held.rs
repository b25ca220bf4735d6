//! A transaction elsewhere that keeps its snapshot: no dead row can be removed meanwhile, in tables
//! and in indexes, and whoever looks for work passes by more and more of them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use posthaste_sink::{Sink, SinkConfig};
use serde_json::Value;
use tokio_postgres::Client as Database;

use super::Options;
use super::load::{Load, To};
use super::place::{Place, serve};
use crate::client::Client;
use crate::figures::{Claim, Figure, Histogram, Kind, Latency, Limit, Section, Who};
use crate::processor::{Group, Reading};
use crate::rig::journal::Journal;
use crate::rig::services::Services;
use crate::rig::stand::Store;

/// How often it is looked at how far everything is.
const EVERY: Duration = Duration::from_secs(10);
/// How many emails are followed from the client to the mail server at the same time.
const FOLLOWED: usize = 8;
/// A followed email is looked for this often, and the next is handed in after a rest.
const LOOK: Duration = Duration::from_millis(2);
const REST: Duration = Duration::from_millis(100);
/// Emails of one trial at full speed, and how many trials there are; the first warms up.
const TRIAL: u64 = 20_000;
const TRIALS: usize = 3;
/// For how long the same load goes through first, at most, with nothing in its way.
const CONTROL: Duration = Duration::from_secs(60);
/// What may be under way at the end, in seconds of the load.
const BACKLOG: Limit = Limit::AtMost(1.0);

/// What counts statements, and what would tell their plans if someone asked for it meanwhile. Two
/// values of a list: it goes between quotes.
const COUNTING: [(&str, &str); 1] = [(
    "shared_preload_libraries",
    "pg_stat_statements', 'auto_explain",
)];

/// What was seen in one stretch of time.
#[derive(Debug, Clone, Default)]
struct Stretch {
    /// When it was over, in seconds.
    at: f64,
    /// How many had been handed in by then, and how many had arrived.
    handed_in: u64,
    arrived: u64,
    /// From the client to the mail server.
    latency: Histogram,
    /// Statements that look for work: how many, and milliseconds each took.
    claims: i64,
    claim_ms: f64,
    /// Who used the processors. When others do, nothing is proven.
    processors: String,
}

/// Holds a snapshot while half of what is possible goes through, on each footing with PostgreSQL.
pub(super) async fn run(
    binary: &Path,
    options: &Options,
    held: Duration,
    journal: &Journal,
) -> anyhow::Result<Section> {
    ensure!(
        options.store != Store::Sqlite,
        "--held is about PostgreSQL: ask for --store postgres or rabbitmq"
    );
    let folder = tempfile::tempdir()?;
    let services = serve(options, folder.path()).await?;
    if can_count(&services).await? {
        services.configure_postgres(&COUNTING).await?;
    }
    let title = format!(
        "A snapshot held for {} s, {}",
        held.as_secs(),
        options.store.title()
    );
    let mut section = Section::titled(&title);
    let sink = Sink::start(SinkConfig::default()).await?;
    let place = Place::make(binary, options, folder.path(), Some(&services), &sink, 0).await?;
    let measured = measure(&place, &services, options, held, &sink, journal).await;
    if let Ok(seen) = &measured {
        report(options.store, seen, &mut section);
    }
    place.clean(&services).await?;
    services.clean().await?;
    measured.map(|_| section)
}

async fn measure(
    place: &Place,
    services: &Services,
    options: &Options,
    held: Duration,
    sink: &Sink,
    journal: &Journal,
) -> anyhow::Result<Seen> {
    let process = place.start.ready().await?;
    let load = Load::new(options.body, options.clients);
    let trial = TRIAL.min(options.emails * 2);
    let mut rates = Vec::new();
    for _ in 0..TRIALS {
        let (before, began) = (sink.accepted(), Instant::now());
        load.hand_in(&process.address, trial, To::People).await?;
        sink.wait_for(before + trial).await;
        rates.push(trial as f64 / began.elapsed().as_secs_f64());
    }
    let most = rates[1..].iter().copied().fold(0.0, f64::max);
    journal.line(&format!(
        "at most {most:.0} emails a second; half of that follows"
    ));
    let mut groups = vec![Group::alone("posthaste", process.id()?)];
    groups.extend(place.postgres());
    let watch = Watch {
        address: &process.address,
        load,
        per_second: most / 2.0,
        sink,
        statements: Statements::watch(services, journal).await,
        groups,
        journal,
    };
    let without = watch.keep_up((held / 5).min(CONTROL)).await?;
    // From here on no row that dies can be removed.
    let elsewhere = place.database().await?.context("not PostgreSQL")?;
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM email_log";
    elsewhere.batch_execute(hold).await?;
    journal.line("a transaction elsewhere keeps its snapshot from now on");
    let with = watch.keep_up(held).await;
    if let Some(statements) = watch.statements.slowest().await {
        journal.line(&format!("the dearest statements:\n{statements}"));
    }
    elsewhere.batch_execute("ROLLBACK").await?;
    drop(watch);
    process.stop().await?;
    Ok(Seen {
        most,
        without,
        with: with?,
    })
}

/// What was seen.
struct Seen {
    /// Emails a second at most.
    most: f64,
    /// Half of that before the snapshot was held.
    without: Vec<Stretch>,
    /// Half of that while it was held.
    with: Vec<Stretch>,
}

/// A steady load, and who looks at it.
struct Watch<'a> {
    address: &'a str,
    load: Load,
    per_second: f64,
    sink: &'a Sink,
    statements: Statements,
    groups: Vec<Group>,
    journal: &'a Journal,
}

impl Watch<'_> {
    /// Hands in at a steady rate for so long, and tells how it goes.
    async fn keep_up(&self, time: Duration) -> anyhow::Result<Vec<Stretch>> {
        let Self {
            address,
            sink,
            statements,
            ..
        } = self;
        let handed_in = AtomicU64::new(0);
        let (before, began) = (sink.accepted(), Instant::now());
        let seen = std::sync::Mutex::new(Histogram::default());
        let taken = || {
            let mut seen = seen
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::take(&mut *seen)
        };
        let follow = (0..FOLLOWED).map(async |number| -> anyhow::Result<()> {
            loop {
                let to = format!("followed{number}@example.org");
                let took = followed(address, &to, sink).await?;
                handed_in.fetch_add(1, Ordering::Relaxed);
                seen.lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .record(took);
                tokio::time::sleep(REST).await;
            }
        });
        let mut stretches = Vec::new();
        let watch = async {
            let mut counted = statements.counted().await;
            while began.elapsed() < time {
                let reading = Reading::of(&self.groups);
                tokio::time::sleep(EVERY.min(time)).await;
                let now = statements.counted().await;
                let claims = now.0 - counted.0;
                let stretch = Stretch {
                    at: began.elapsed().as_secs_f64(),
                    handed_in: handed_in.load(Ordering::Relaxed),
                    arrived: sink.accepted() - before,
                    latency: taken(),
                    claims,
                    claim_ms: (now.1 - counted.1) / claims.max(1) as f64,
                    processors: reading.until_now().percent(),
                };
                counted = now;
                self.journal.line(&stretch.text());
                stretches.push(stretch);
            }
        };
        tokio::select! {
            () = watch => {}
            stopped = self.load.hand_in_steadily(address, self.per_second, &handed_in) => stopped?,
            stopped = futures_util::future::try_join_all(follow) => drop(stopped?),
        }
        Ok(stretches)
    }
}

impl Stretch {
    fn under_way(&self) -> u64 {
        self.handed_in.saturating_sub(self.arrived)
    }

    fn text(&self) -> String {
        let Latency { p50_ms, p99_ms, .. } = self.latency.latency();
        let under_way = self.under_way();
        let Self {
            at,
            handed_in,
            claims,
            claim_ms,
            processors,
            ..
        } = self;
        format!(
            "{at:4.0} s: {handed_in} handed in, {under_way} under way, latency p50 {p50_ms:.0} ms, \
             p99 {p99_ms:.0} ms; {claims} claims of {claim_ms:.2} ms; % of a core: {processors}"
        )
    }
}

/// Hands in one email and waits until the mail server has it.
async fn followed(address: &str, to: &str, sink: &Sink) -> anyhow::Result<Duration> {
    let began = Instant::now();
    // A new one each time: the last may have been closed for idling.
    let mut client = Client::connect(address).await?;
    let email = format!(
        r#"{{"from":"shop@example.org","to":"{to}","subject":"Followed","text":"Followed"}}"#
    );
    let (status, answer) = client.post("/v1/emails", &email).await?;
    ensure!(status == 202, "the server answered {status}: {answer}");
    let answer: Value = serde_json::from_str(&answer)?;
    let id = answer["id"].as_str().context("no id")?;
    let message_id = format!("{id}@example.org");
    while sink.copies(&message_id, to) == 0 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(began.elapsed())
}

/// Whether PostgreSQL has what counts statements; it would not start otherwise.
async fn can_count(services: &Services) -> anyhow::Result<bool> {
    let sql = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
    let row = services.database().await?.query_one(sql, &[]).await?;
    Ok(row.try_get(0)?)
}

/// What PostgreSQL counts of its statements, if it does.
struct Statements(Option<Database>);

impl Statements {
    async fn watch(services: &Services, journal: &Journal) -> Self {
        let watching = async {
            let database = services.database().await?;
            let create = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public";
            database.batch_execute(create).await?;
            let reset = "SELECT public.pg_stat_statements_reset()";
            database.batch_execute(reset).await?;
            anyhow::Ok(database)
        };
        match watching.await {
            Ok(database) => Self(Some(database)),
            Err(_) => {
                journal.line("PostgreSQL has no pg_stat_statements: claims are not timed");
                Self(None)
            }
        }
    }

    /// How many statements looked for work so far, and milliseconds in all.
    async fn counted(&self) -> (i64, f64) {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(total_exec_time), 0)
                   FROM public.pg_stat_statements WHERE query LIKE '%SKIP LOCKED%'";
        let Some(database) = &self.0 else {
            return (0, 0.0);
        };
        let row = database.query_one(sql, &[]).await;
        row.map_or((0, 0.0), |row| (row.get(0), row.get(1)))
    }

    /// The statements that took most time in all, for people.
    async fn slowest(&self) -> Option<String> {
        let sql = "SELECT format('%s ms in %s calls, %s buffers each: %s', total_exec_time::int,
                       calls, (shared_blks_hit + shared_blks_read) / calls,
                       left(regexp_replace(query, '\\s+', ' ', 'g'), 300))
                   FROM public.pg_stat_statements ORDER BY total_exec_time DESC LIMIT 8";
        let rows = self.0.as_ref()?.query(sql, &[]).await.ok()?;
        let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        Some(lines.join("\n"))
    }
}

/// What was seen in the first and the last minute, and whether it was kept up with.
fn report(store: Store, seen: &Seen, section: &mut Section) {
    let (name, most, stretches) = (store.title(), seen.most, &seen.with);
    let figure = |what: &str, unit: &str, value: f64| {
        let name = format!("snapshot held, {name}: {what}");
        Figure::cost(Kind::History, Who::Posthaste, &name, unit, vec![value])
    };
    let of = |stretches: &[Stretch]| {
        let mut all = Histogram::default();
        for stretch in stretches {
            all.add(&stretch.latency);
        }
        all.latency()
    };
    let minute = stretches.len().min(6);
    let (first, last) = (
        of(&stretches[..minute]),
        of(&stretches[stretches.len() - minute..]),
    );
    let Some(end) = stretches.last() else {
        return;
    };
    for (what, latency) in [("first minute", first), ("last minute", last)] {
        let name = format!("client to mail server, {what}, p99");
        section
            .figures
            .push(figure(&name, "ms", latency.p99_ms).with_latency(latency));
    }
    let claims: Vec<f64> = stretches.iter().map(|stretch| stretch.claim_ms).collect();
    let claim = figure("looking for work, each 10 s", "ms", 0.0);
    section.figures.push(Figure {
        runs: claims,
        ..claim
    });
    let rate = end.arrived as f64 / end.at;
    section.notes.push(format!(
        "at most {most:.0} emails a second without it; {rate:.0} went through with it"
    ));
    let under_way = |stretch: &Stretch| stretch.under_way() as f64 / (most / 2.0);
    if !seen
        .without
        .last()
        .is_some_and(|end| BACKLOG.holds(under_way(end)))
    {
        let note = "the load was not kept up with before the snapshot was held either";
        section.notes.push(format!("{note}: nothing is proven"));
    }
    let seconds = under_way(end);
    section.claims.push(Claim::of_value(
        &format!("half of the most is kept up with, {name}: under way at the end"),
        seconds,
        "s of the load",
        BACKLOG,
    ));
}
