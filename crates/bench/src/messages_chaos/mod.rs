//! Failed messages and faults: processes with the role messages are killed, RabbitMQ and
//! PostgreSQL crash, while a driver hands failures in and fails some of what comes back.
//! Afterwards every message is looked at: nothing may be lost, and a second copy may exist only
//! where the store has it on record.
//!
//! The driver is a service that never dies and forgets nothing. What it cannot know, because
//! RabbitMQ crashed before it answered, it keeps apart.

mod audit;
mod fault;
mod hand_in;
mod handler;
mod ledger;
mod options;
mod report;
mod stage;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use self::audit::Audit;
use self::ledger::{Ledger, MAX_RETRIES};
use self::stage::{Queues, Stage};
use crate::amqp::{QueueType, Rabbit};
use crate::rig;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::member::{Recipe, Role};
use crate::rig::outage::Outages;
use crate::rig::services::{Given, Services};

/// What is shown while it runs.
const SHOWN: [&str; 2] = ["handed in", "retries seen"];

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
    let run = format!("chaos-{}", std::process::id());
    let services = Services::start(&Given::default(), folder, &run).await?;
    let rabbitmq_url = services.rabbitmq_url.as_deref().context("no RabbitMQ")?;
    let queues = Queues {
        scheduled: format!("{run}.scheduled"),
        original: format!("{run}.original"),
        review: format!("{run}.review"),
    };
    let rabbit = Rabbit::connect(rabbitmq_url).await?;
    rabbit.declare(&queues.original, QueueType::Classic).await?;
    drop(rabbit);
    let recipe = Arc::new(Recipe {
        binary,
        variables: variables(options, &services, rabbitmq_url, &queues),
        folder: folder.to_owned(),
    });
    let started = Instant::now();
    let roles = [(Role::Messages, options.instances)];
    let fleet = Fleet::start(&roles, Arc::clone(&recipe), Arc::clone(journal)).await?;
    journal.line("all processes listen");

    let ledger = Arc::new(Ledger::new(options, &queues.original));
    let stage = Stage {
        options,
        services: &services,
        rabbitmq_url,
        queues: &queues,
        fleet: Arc::clone(&fleet),
        ledger: Arc::clone(&ledger),
        outages: Outages::default(),
        journal,
    };
    let most = ledger.expected_retries();
    let left = tokio::select! {
        played = stage.play() => played?,
        () = journal.show(most as usize, SHOWN, || [ledger.handed_in(), ledger.retries()]) => {
            bail!("nothing is shown")
        }
    };
    let time = started.elapsed();
    journal.line("checking");
    let ended = fleet.ended();
    let unexcused = ended.iter().filter(|end| !stage.outages.excuses(end.at));
    let unexcused = unexcused.map(|ended| format!("ENDED: {}", ended.what));
    fleet.stop().await;
    let verify = recipe.verify(None).await?;
    let review = handler::take_all(rabbitmq_url, &queues.review).await?;
    let audit = Audit::of(&services.database().await?, &ledger, &review).await?;
    Ok(Report {
        messages: options.messages,
        expected_retries: most,
        audit,
        kills: fleet.kills(),
        freezes: fleet.freezes(),
        rabbitmq_restarts: options.rabbitmq_restarts,
        postgres_restarts: options.postgres_restarts,
        ended: unexcused.collect(),
        left,
        verify,
        time,
        replay: options.replay(),
    })
}

/// What every process is told: short delays, so that a run sees many retries.
fn variables(
    options: &Options,
    services: &Services,
    rabbitmq_url: &str,
    queues: &Queues,
) -> Vec<(String, String)> {
    let variables = [
        ("DATABASE_URL", services.database_url.clone()),
        ("RABBITMQ_URL", rabbitmq_url.to_owned()),
        ("RETRY_QUEUE", queues.scheduled.clone()),
        ("MANUAL_REVIEW_QUEUE", queues.review.clone()),
        ("DEFAULT_MAX_RETRIES", MAX_RETRIES.to_string()),
        ("BASE_DELAY_MS", "200".to_owned()),
        ("POSTHASTE_MESSAGES__JITTER", "200ms".to_owned()),
        ("RETRY_POLL_INTERVAL_MS", "1000".to_owned()),
        ("POSTHASTE_LOG__LEVEL", options.log.clone()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let more = options.variables.iter().cloned();
    variables.into_iter().chain(more).collect()
}
