//! Load and faults: many processes on PostgreSQL and RabbitMQ, killed and cut off while emails
//! pour in. Afterwards every email is looked at: nothing may be lost, and a second copy may exist
//! only where an attempt of unknown fate is on record.
//!
//! The clients keep a ledger of their own, and the mail server counts copies; neither believes
//! what the processes say of themselves.

mod fault;
mod load;
mod options;
mod queue;
mod report;
mod stage;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use posthaste_sink::{Sink, SinkConfig};

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use self::queue::Queues;
use self::stage::Stage;
use crate::evidence::audit::Audit;
use crate::evidence::ledger::Ledger;
use crate::evidence::stored::Books;
use crate::evidence::witness::Witnesses;
use crate::rig;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::member::{Recipe, Role};
use crate::rig::outage::Outages;
use crate::rig::services::{Given, Services};

/// What is shown while it runs.
const SHOWN: [&str; 2] = ["accepted", "copies delivered"];

/// Runs everything. Whatever was started is stopped in the end, also at Ctrl-C.
pub(crate) async fn run(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    rig::unless_interrupted(run_to_the_end(binary, options)).await
}

/// Keeps the logs if something is wrong.
async fn run_to_the_end(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let folder = tempfile::Builder::new()
        .prefix("posthaste-bench-")
        .tempdir()?;
    let journal = Arc::new(Journal::new());
    journal.line(&format!("logs are in {}", folder.path().display()));
    let report = run_in(folder.path(), binary, options, &journal).await;
    journal.clear();
    if !report.as_ref().is_ok_and(Report::passed) {
        journal.line(&format!("logs stay in {}", folder.keep().display()));
    }
    report
}

async fn run_in(
    folder: &Path,
    binary: &Path,
    options: &Options,
    journal: &Arc<Journal>,
) -> anyhow::Result<Report> {
    let binary = binary
        .canonicalize()
        .with_context(|| format!("{} is not there", binary.display()))?;
    let run = format!("bench-{}", std::process::id());
    let given = Given {
        database_url: options.database_url.clone(),
        rabbitmq_url: options.rabbitmq_url.clone(),
        without_rabbitmq: options.without_rabbitmq,
    };
    let services = Services::start(&given, folder, &run).await?;
    journal.line(&format!("PostgreSQL is at {}", services.database_url));
    let sink = Sink::start(SinkConfig::default()).await?;
    let queues = Queues::of_run(&run);
    let recipe = Arc::new(Recipe {
        binary,
        variables: variables(options, &services, &sink, &queues),
        folder: folder.to_owned(),
    });
    let started = Instant::now();
    let roles = [
        (Role::Api, options.apis),
        (Role::Sender, options.senders),
        (Role::Scheduler, options.schedulers),
    ];
    let fleet = Fleet::start(&roles, Arc::clone(&recipe), Arc::clone(journal)).await?;
    journal.line("all processes listen");

    let stage = Stage {
        options,
        services: &services,
        queues: &queues,
        fleet: Arc::clone(&fleet),
        ledger: Arc::new(Ledger::new(&run)),
        outages: Outages::default(),
        books: Books::Postgres(services.database_url.clone()),
        sink: &sink,
        journal,
    };
    let ledger = &stage.ledger;
    let played = tokio::select! {
        played = stage.play() => played?,
        () = journal.show(options.emails, SHOWN, || [ledger.accepted(), sink.accepted()]) => bail!("nothing is shown"),
    };
    let total_time = started.elapsed();
    journal.line("checking");
    let file = folder.join("ledger");
    std::fs::write(&file, ledger.text())?;
    let verify = recipe.verify(Some(&file)).await?;
    let witnesses = Witnesses::of(ledger, &fleet, &stage.outages);
    fleet.stop().await;
    let audit = Audit::of(&stage.books, ledger, &sink.report()).await?;
    let report = Report {
        emails: options.emails,
        audit,
        faults: played.faults,
        kills: fleet.kills(),
        freezes: fleet.freezes(),
        witnesses,
        not_drained: played.not_drained,
        verify,
        accept_time: played.accept_time,
        total_time,
    };
    if let Some(url) = &options.rabbitmq_url {
        queues.delete(url).await?;
    }
    services.clean().await?;
    Ok(report)
}

/// What every process is told: everything short, so that a run sees many of everything, and a
/// budget that no fault of the infrastructure can spend.
fn variables(
    options: &Options,
    services: &Services,
    sink: &Sink,
    queues: &Queues,
) -> Vec<(String, String)> {
    let mut variables: Vec<_> = [
        ("DATABASE_URL", services.database_url.clone()),
        ("SMTP_URL", format!("{}?tls=none", sink.url())),
        ("BACKOFF_SCHEDULE", "500ms,1s,2s".to_owned()),
        ("MAX_ATTEMPTS", "20".to_owned()),
        ("LEASE_SECONDS", "5".to_owned()),
        ("RETRY_INTERVAL_SECONDS", "2".to_owned()),
        (
            "POSTHASTE_SENDER__CONNECTIONS",
            options.connections.to_string(),
        ),
        ("POSTHASTE_SMTP__MESSAGES_PER_CONNECTION", "1000".to_owned()),
        ("POSTHASTE_LOG__LEVEL", options.log.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(url) = &services.rabbitmq_url {
        variables.push(("RABBITMQ_URL".to_owned(), url.clone()));
        variables.extend(queues.variables());
    }
    variables.extend(options.variables.iter().cloned());
    variables
}
