//! One set-up: starts everything, plays, and compares all witnesses.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use posthaste_sink::{Sink, SinkConfig};

use super::doom::{Deaths, Dooms};
use super::fault::Disk;
use super::options::{Options, Script};
use super::stage::{Played, Stage};
use crate::evidence::audit::Audit;
use crate::evidence::ledger::Ledger;
use crate::evidence::stored::Books;
use crate::evidence::witness::Witnesses;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::member::{Recipe, Role};
use crate::rig::outage::Outages;
use crate::rig::proxy::Proxy;
use crate::rig::services::{Given, Services};
use crate::rig::stand::{Store, queue_variables};

/// How long the first start may take that shows whether there are failpoints.
const TRY: Duration = Duration::from_secs(20);

/// Everything that was found on one set-up.
pub(super) struct Found {
    pub(super) store: Store,
    pub(super) audit: Audit,
    pub(super) played: Played,
    pub(super) witnesses: Witnesses,
    pub(super) deaths: Deaths,
    pub(super) faults: std::collections::BTreeMap<&'static str, u64>,
    /// What `posthaste verify` complains about.
    pub(super) verify: Option<String>,
    /// What was left out, and why.
    pub(super) skipped: Vec<String>,
    pub(super) time: Duration,
}

/// The processes that share a store.
fn roles(store: Store) -> Vec<(Role, u64)> {
    match store {
        Store::Sqlite => vec![(Role::Whole, 1)],
        Store::Postgres => vec![(Role::Whole, 2), (Role::Sender, 1)],
        Store::Rabbitmq => vec![
            (Role::Whole, 1),
            (Role::Api, 1),
            (Role::Sender, 2),
            (Role::Scheduler, 1),
        ],
    }
}

/// What every process is told: everything short, so that a run sees many of everything, and a
/// budget that no fault of the infrastructure can spend.
const BRIEF: [(&str, &str); 22] = [
    ("BACKOFF_SCHEDULE", "300ms,600ms,1s"),
    ("MAX_ATTEMPTS", "100"),
    ("LEASE_SECONDS", "3"),
    ("RETRY_INTERVAL_SECONDS", "2"),
    ("POSTHASTE_SENDER__CONNECTIONS", "8"),
    ("POSTHASTE_SENDER__INLINE_TIMEOUT", "3s"),
    ("POSTHASTE_STORE__TIMEOUT", "4s"),
    ("POSTHASTE_STORE__CONNECTIONS", "4"),
    ("POSTHASTE_STORE__WRITERS", "2"),
    ("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "2s"),
    ("POSTHASTE_SMTP__CONNECT_TIMEOUT", "2s"),
    ("POSTHASTE_SMTP__COMMAND_TIMEOUT", "2s"),
    ("POSTHASTE_SMTP__BODY_TIMEOUT", "3s"),
    ("POSTHASTE_SMTP__FINAL_DOT_TIMEOUT", "3s"),
    ("POSTHASTE_BREAKER__FIRST_PROBE", "500ms"),
    ("POSTHASTE_BREAKER__LONGEST_PROBE", "1s"),
    ("POSTHASTE_BREAKER__RAMP_RATE", "50"),
    ("POSTHASTE_BREAKER__RAMP_DOUBLING", "300ms"),
    ("POSTHASTE_BREAKER__RAMP", "3s"),
    ("POSTHASTE_SHUTDOWN__DRAIN", "5s"),
    ("POSTHASTE_LOG__FORMAT", "text"),
    ("RUST_BACKTRACE", "1"),
];

/// Runs one set-up in a folder of its own.
pub(super) async fn run(
    store: Store,
    folder: &Path,
    binary: &Path,
    options: &Options,
    seed: u64,
    journal: &Arc<Journal>,
) -> anyhow::Result<Found> {
    let started = Instant::now();
    std::fs::create_dir_all(folder)?;
    let mut skipped = Vec::new();
    let run = format!("torture-{}-{}", std::process::id(), started_name(store));
    let services = match store {
        Store::Sqlite => None,
        Store::Postgres | Store::Rabbitmq => {
            let given = Given {
                without_rabbitmq: store == Store::Postgres,
                ..Given::default()
            };
            Some(Services::start(&given, folder, &run).await?)
        }
    };
    let disk = match store {
        Store::Sqlite => Disk::mount(&folder.join("disk")).map_err(|error| {
            skipped.push(format!("disk full: no file system of our own ({error})"));
        }),
        Store::Postgres | Store::Rabbitmq => Err(()),
    }
    .ok();
    let sink = Sink::start(SinkConfig {
        seed,
        ..SinkConfig::default()
    })
    .await?;
    let books = match &services {
        None => Books::Sqlite(folder.join("disk/posthaste.db")),
        Some(services) => Books::Postgres(services.database_url.clone()),
    };
    let mail_network = Proxy::to(&sink.url()).await?;
    let database_network = match &books {
        Books::Sqlite(_) => None,
        Books::Postgres(url) => Some(Proxy::to(url).await?),
    };
    let rabbitmq_url = services.as_ref().and_then(|s| s.rabbitmq_url.clone());
    let rabbitmq_network = match &rabbitmq_url {
        Some(url) => Some(Proxy::to(url).await?),
        None => None,
    };
    let mut variables: Vec<(String, String)> = BRIEF
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
    let smtp = mail_network.by_way_of(&sink.url());
    set("SMTP_URL", format!("{smtp}?tls=none"));
    set("POSTHASTE_LOG__LEVEL", options.log.clone());
    set(
        "DATABASE_URL",
        match (&books, &database_network) {
            (Books::Postgres(url), Some(network)) => network.by_way_of(url),
            (Books::Postgres(url), None) => url.clone(),
            (Books::Sqlite(path), _) => format!("sqlite:{}", path.display()),
        },
    );
    if let (Some(url), Some(network)) = (&rabbitmq_url, &rabbitmq_network) {
        set("RABBITMQ_URL", network.by_way_of(url));
        variables.extend(queue_variables(&run));
        let lane = ("RETRY_QUEUE".to_owned(), format!("{run}.scheduled"));
        variables.push(lane);
    }
    variables.extend(options.variables.iter().cloned());
    let recipe = Arc::new(Recipe {
        binary: binary.to_owned(),
        variables,
        folder: folder.to_owned(),
    });

    let is_torture = matches!(options.script(), Script::Torture { .. });
    let has_failpoints = is_torture && has_failpoints(&recipe).await?;
    if is_torture && !has_failpoints {
        skipped.push(
            "kills at failpoints, clock steps: this binary has none; build it with --profile torture"
                .to_owned(),
        );
    }
    let has_strace = is_torture && store == Store::Sqlite && has_strace(folder).await;
    if is_torture && store == Store::Sqlite && !has_strace {
        skipped.push("fsync errors, kills at an fsync: strace does not work here".to_owned());
    }
    let roles = roles(store);
    let processes: u64 = roles.iter().map(|(_, n)| n).sum();
    let mean = options.pace.0 * u32::try_from(processes)?;
    let outages = Arc::new(Outages::default());
    let dooms = Arc::new(Dooms::new(
        store,
        mean,
        seed,
        has_failpoints,
        has_strace,
        Arc::clone(&outages),
    ));
    let director = Arc::clone(&dooms);
    let fleet =
        Fleet::start_directed(&roles, Arc::clone(&recipe), Arc::clone(journal), director).await?;
    journal.line(&format!("{}: {processes} processes listen", store.title()));

    let stage = Stage {
        options,
        store,
        seed,
        run: &run,
        services: services.as_ref(),
        database_network: database_network.as_ref(),
        rabbitmq_network: rabbitmq_network.as_ref(),
        mail_network: &mail_network,
        disk: disk.as_ref(),
        fleet: Arc::clone(&fleet),
        ledger: Arc::new(Ledger::new(&run)),
        outages,
        books,
        sink: &sink,
        dooms,
        journal,
        faults: std::sync::Mutex::default(),
        rounds: AtomicU64::new(0),
    };
    let ledger = &stage.ledger;
    let shown = ["accepted", "copies delivered"];
    let played = tokio::select! {
        played = stage.play() => played?,
        () = journal.show(0, shown, || [ledger.accepted(), sink.accepted()]) => bail!("nothing is shown"),
    };
    journal.line("checking");
    let file = folder.join("ledger");
    std::fs::write(&file, ledger.text())?;
    let verify = recipe.verify(Some(&file)).await?;
    let witnesses = Witnesses::of(ledger, &fleet, &stage.outages);
    fleet.stop().await;
    let audit = Audit::of(&stage.books, ledger, &sink.report()).await?;
    let integrity = stage.books.integrity().await?;
    Ok(Found {
        store,
        audit,
        played,
        witnesses,
        deaths: stage.dooms.deaths(),
        faults: stage.faults.into_inner().unwrap_or_default(),
        verify: verify.or(integrity),
        skipped,
        time: started.elapsed(),
    })
}

const fn started_name(store: Store) -> &'static str {
    match store {
        Store::Sqlite => "sqlite",
        Store::Postgres => "postgres",
        Store::Rabbitmq => "rabbitmq",
    }
}

/// Whether the binary dies at the first failpoint there is.
async fn has_failpoints(recipe: &Recipe) -> anyhow::Result<bool> {
    let mut command = recipe.command();
    command
        .env("POSTHASTE_FAILPOINT", "serve.start=kill")
        // Should it have none, it must not make a database: another one is to be the first.
        .env("DATABASE_URL", "sqlite:none/posthaste.db")
        .env_remove("RABBITMQ_URL")
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", recipe.binary.display()))?;
    let ended = tokio::time::timeout(TRY, child.wait()).await;
    Ok(ended.is_ok_and(|status| status.is_ok_and(|status| status.code().is_none())))
}

/// Whether a program can be killed at a system call of its own.
async fn has_strace(folder: &Path) -> bool {
    let arguments = "-D -f -qq -o /dev/null -e trace=fsync -e inject=fsync:signal=KILL:when=1 sync";
    let status = tokio::process::Command::new("strace")
        .args(arguments.split(' '))
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.await.is_ok_and(|status| status.code().is_none())
}
