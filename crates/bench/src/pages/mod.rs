//! How long every page takes to answer beside millions of emails in PostgreSQL.

mod fill;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::client::Client;
use crate::history::past::Past;
use crate::rig;
use crate::rig::journal::Journal;
use crate::rig::services::{Given, Services};
use crate::server::Server;

/// No page may take longer.
const LIMIT: Duration = Duration::from_millis(300);

/// How many emails, and which server.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many emails there are
    #[arg(long, default_value_t = 5_000_000)]
    emails: u32,
    /// How many of them are dead letters
    #[arg(long, default_value_t = 10_000)]
    dead: u32,
    /// Nothing waits: all others are over, nearly all of them sent
    #[arg(long)]
    healthy: bool,
    /// How often each page is asked for
    #[arg(long, default_value_t = 5)]
    requests: usize,
    /// A PostgreSQL to use in a schema of its own; a private one if left out
    #[arg(long)]
    database_url: Option<String>,
}

/// Fills the database, asks for every page, and reports.
pub(crate) async fn run(binary: &Path, options: &Options) -> anyhow::Result<Value> {
    rig::unless_interrupted(measured(binary, options)).await
}

async fn measured(binary: &Path, options: &Options) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let given = Given {
        database_url: options.database_url.clone(),
        without_rabbitmq: true,
        ..Given::default()
    };
    let run = format!("pages_{}", std::process::id());
    let services = Services::start(&given, folder.path(), &run).await?;
    let journal = Journal::new();
    let outcome = ask_for_all(binary, options, &services, &journal).await;
    services.clean().await?;
    outcome
}

async fn ask_for_all(
    binary: &Path,
    options: &Options,
    services: &Services,
    journal: &Journal,
) -> anyhow::Result<Value> {
    let environment = [
        ("DATABASE_URL", services.database_url.clone()),
        // Nothing is sent: there is only the API.
        ("SMTP_URL", "smtp://127.0.0.1:1?tls=none".to_owned()),
    ];
    // Once for the schema, and again when the database is full.
    Server::start(binary, &["--role", "api"], &environment)
        .await?
        .stop()
        .await?;
    let database = services.database().await?;
    let past = Past {
        emails: u64::from(options.emails),
        dead: u64::from(options.dead),
        some_wait: !options.healthy,
    };
    fill::fill(&database, &services.database_url, past, journal).await?;
    let server = Server::start(binary, &["--role", "api"], &environment).await?;
    let mut client = Client::connect(&server.address).await?;
    let known = Known::of(&mut client).await?;
    let mut pages = Vec::new();
    for path in known.pages() {
        let mut times = Vec::new();
        for _ in 0..options.requests.max(1) {
            let began = Instant::now();
            let (status, body) = client.get(&path).await?;
            times.push(began.elapsed());
            ensure!(status == 200, "{path} is answered {status}: {body}");
        }
        let first = times[0];
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        journal.line(&format!(
            "{:>6.1} ms {:>6.1} ms  {path}",
            ms(median),
            ms(worst)
        ));
        pages.push(json!({
            "page": path, "first_ms": ms(first), "median_ms": ms(median), "worst_ms": ms(worst),
        }));
    }
    let worst = |name: &str| {
        let times = pages.iter().filter_map(|page| page[name].as_f64());
        times.fold(0.0, f64::max)
    };
    let (median, slowest) = (worst("median_ms"), worst("worst_ms"));
    Ok(json!({
        "what": "milliseconds until a page was answered, from the first to the last octet",
        "emails": options.emails,
        "dead": options.dead,
        "slowest_median_ms": median,
        "slowest_ms": slowest,
        "limit_ms": ms(LIMIT),
        "holds": slowest < ms(LIMIT),
        "pages": pages,
    }))
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// What the database holds that pages are about.
struct Known {
    email: String,
    dead: String,
    fingerprint: String,
    deep: String,
}

impl Known {
    async fn of(client: &mut Client) -> anyhow::Result<Self> {
        let mut ask = async |path: &str| -> anyhow::Result<Value> {
            let (status, body) = client.get(path).await?;
            ensure!(status == 200, "{path} is answered {status}: {body}");
            Ok(serde_json::from_str(&body)?)
        };
        let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
        let newest = ask("/v1/emails?limit=500").await?;
        let dead = ask("/v1/dead-letters?limit=1").await?;
        let groups = ask("/v1/dead-letters/groups").await?;
        Ok(Self {
            email: text(&newest["data"][0]["id"])?,
            dead: text(&dead["data"][0]["id"])?,
            fingerprint: text(&groups["data"][0]["fingerprint"])?,
            deep: text(&newest["next"])?,
        })
    }

    fn pages(&self) -> Vec<String> {
        let Self {
            email,
            dead,
            fingerprint,
            deep,
        } = self;
        let fixed = [
            "/admin",
            "/admin/emails",
            "/admin/emails?status=sent",
            "/admin/emails?status=failed,retry_queued",
            "/admin/emails?status=pending,sending",
            "/admin/emails?status=dead",
            "/admin/emails?status=unknown",
            "/admin/emails?status=discarded",
            "/admin/emails?status=cancelled",
            "/admin/emails?template=receipt",
            "/admin/emails?template=rare",
            "/admin/emails?template=none-such",
            "/admin/emails?to=user77@example.org",
            "/admin/emails?to=nobody@example.org",
            "/admin/emails?q=Receipt",
            "/admin/emails?q=Receipt+4711",
            "/admin/emails?q=nothing+like+this",
            "/admin/emails?q=user77@example.org",
            "/admin/emails?status=sent&template=rare",
            "/admin/emails?status=dead&to=user77@example.org",
            "/admin/emails?status=failed&template=receipt",
            "/admin/emails?status=failed&q=Receipt",
            "/admin/dead-letters",
            "/admin/dead-letters?template=receipt",
            "/admin/uncertain",
            "/admin/email-queue",
            "/admin/messages",
            "/admin/operations",
            "/admin/templates",
            "/admin/inbox",
            "/admin/audit",
            "/admin/audit?action=discard",
            "/admin/audit?actor=admin:ann",
            "/admin/audit?actor=nobody",
            "/admin/settings",
            "/v1/stats",
            "/v1/dead-letters/groups",
            "/api/admin/outbox",
            "/api/admin/dashboard",
            "/metrics",
        ];
        let mut pages: Vec<String> = fixed.map(str::to_owned).into();
        pages.extend([
            format!("/admin/emails/{email}"),
            format!("/admin/emails/{dead}"),
            format!("/admin/emails?after={deep}"),
            format!("/admin/emails?q={email}"),
            format!("/admin/dead-letters?fingerprint={fingerprint}"),
        ]);
        pages
    }
}
