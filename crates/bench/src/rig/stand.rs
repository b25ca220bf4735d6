//! The whole binary on a store of its own: one process, or several that share it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::fleet::Fleet;
use super::journal::Journal;
use super::member::{Recipe, Role};
use super::services::{Given, Services};
use crate::amqp::Rabbit;
use crate::client::Client;
use crate::messages::variable;

/// When a question counts as unanswered. Longer than the server's own limit.
const PATIENCE: Duration = Duration::from_secs(40);
/// The queues of a run.
const QUEUES: [&str; 6] = ["send", "send.high", "send.low", "retry", "dead", "review"];

/// What a process is told so that its queues begin with the name of the run.
pub(crate) fn queue_variables(run: &str) -> Vec<(String, String)> {
    let names = ["SEND", "RETRY", "DEAD", "REVIEW"].into_iter();
    names
        .map(|what| {
            let queue = format!("{run}.{}", what.to_lowercase());
            (format!("POSTHASTE_BROKER__{what}_QUEUE"), queue)
        })
        .collect()
}

/// The queues of such a process.
pub(crate) fn queues(run: &str) -> [String; 6] {
    QUEUES.map(|what| format!("{run}.{what}"))
}

/// Where emails and tickets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// A file, with the queue in the process
    Sqlite,
    /// PostgreSQL; senders claim from it
    Postgres,
    /// PostgreSQL, and tickets in RabbitMQ
    Rabbitmq,
}

impl Store {
    /// Its name in figures.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite, in-process queue",
            Self::Postgres => "PostgreSQL",
            Self::Rabbitmq => "PostgreSQL + RabbitMQ",
        }
    }
}

/// What the binary works with.
#[derive(Debug, Args)]
pub(crate) struct Footing {
    /// Where emails and tickets are kept
    #[arg(long, value_enum, default_value = "sqlite")]
    pub(crate) store: Store,
    /// How many processes share it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) processes: u64,
    /// How many SMTP connections each process has
    #[arg(long, default_value_t = 16)]
    pub(crate) connections: u64,
    /// Use this PostgreSQL instead of a private one; schemas are made and dropped there
    #[arg(long)]
    database_url: Option<String>,
    /// Use this RabbitMQ instead of a private one; queues are made and deleted there
    #[arg(long)]
    rabbitmq_url: Option<String>,
    /// What the processes log
    #[arg(long, default_value = "warn")]
    log: String,
    /// A further variable of every process, such as POSTHASTE_BREAKER__FAILURES=5
    #[arg(long = "env", value_parser = variable)]
    variables: Vec<(String, String)>,
}

impl Footing {
    /// Its name in reports.
    pub(crate) const fn name(&self) -> &'static str {
        match self.store {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
            Store::Rabbitmq => "rabbitmq",
        }
    }
}

/// Processes on a store of their own. They are killed when this is dropped.
pub(crate) struct Stand {
    services: Option<Services>,
    recipe: Arc<Recipe>,
    fleet: Arc<Fleet>,
    /// A prefix of the names of all queues.
    run: String,
    given_rabbitmq: Option<String>,
}

impl Stand {
    /// Starts everything in a folder of its own, which is named so.
    pub(crate) async fn start(
        binary: &Path,
        folder: &Path,
        name: &str,
        footing: &Footing,
        variables: &[(&str, String)],
        journal: &Arc<Journal>,
    ) -> anyhow::Result<Self> {
        ensure!(
            footing.store != Store::Sqlite || footing.processes == 1,
            "one process at most serves a SQLite file: ask for --store postgres"
        );
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let run = format!("bench-{}-{name}", std::process::id());
        let services = match footing.store {
            Store::Sqlite => None,
            Store::Postgres | Store::Rabbitmq => {
                let given = Given {
                    database_url: footing.database_url.clone(),
                    rabbitmq_url: footing.rabbitmq_url.clone(),
                    without_rabbitmq: footing.store == Store::Postgres,
                };
                Some(Services::start(&given, &folder, &run).await?)
            }
        };
        let database_url = match &services {
            None => format!("sqlite:{}", folder.join("posthaste.db").display()),
            Some(services) => services.database_url.clone(),
        };
        let mut all: Vec<(String, String)> = vec![
            ("DATABASE_URL".to_owned(), database_url),
            (
                "POSTHASTE_SENDER__CONNECTIONS".to_owned(),
                footing.connections.to_string(),
            ),
            ("POSTHASTE_LOG__LEVEL".to_owned(), footing.log.clone()),
        ];
        if let Some(url) = services.as_ref().and_then(|s| s.rabbitmq_url.clone()) {
            all.push(("RABBITMQ_URL".to_owned(), url));
            all.extend(queue_variables(&run));
        }
        let own = variables.iter();
        all.extend(own.map(|(name, value)| ((*name).to_owned(), value.clone())));
        all.extend(footing.variables.iter().cloned());
        let recipe = Arc::new(Recipe {
            binary: binary
                .canonicalize()
                .with_context(|| format!("{} is not there", binary.display()))?,
            variables: all,
            folder,
        });
        let roles = [(Role::Whole, footing.processes)];
        let fleet = Fleet::start(&roles, Arc::clone(&recipe), Arc::clone(journal)).await?;
        Ok(Self {
            services,
            recipe,
            fleet,
            run,
            given_rabbitmq: footing.rabbitmq_url.clone(),
        })
    }

    /// Where the processes listen.
    pub(crate) fn addresses(&self) -> anyhow::Result<Vec<String>> {
        let addresses = self.fleet.apis();
        ensure!(!addresses.is_empty(), "no process listens");
        Ok(addresses)
    }

    /// Asks the first process.
    pub(crate) async fn ask(&self, path: &str) -> anyhow::Result<Value> {
        let addresses = self.addresses()?;
        let asking = async {
            let mut client = Client::connect(&addresses[0]).await?;
            client.get(path).await
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        let (status, answer) = asked.with_context(|| format!("{path} was not answered"))??;
        ensure!(status == 200, "{path} was answered {status}: {answer}");
        Ok(serde_json::from_str(&answer)?)
    }

    /// Fails if a process ended.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.fleet.check()?;
        let ended = self.fleet.ended().pop();
        ended.map_or(Ok(()), |ended| Err(anyhow::Error::msg(ended.what)))
    }

    /// Has the binary audit the stored state against what clients saw accepted. The answer is what
    /// it complains about, if anything.
    pub(crate) async fn verify(&self, ids: &[String]) -> anyhow::Result<Option<String>> {
        let ledger = self.recipe.folder.join("ledger");
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(&ledger, text)?;
        self.recipe.verify(Some(&ledger)).await
    }

    /// Kills the processes, and takes back what was made on given servers.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.fleet.stop().await;
        if let Some(url) = &self.given_rabbitmq {
            let rabbit = Rabbit::connect(url).await?;
            rabbit.delete(&queues(&self.run)).await?;
        }
        match &self.services {
            Some(services) => services.clean().await,
            None => Ok(()),
        }
    }
}
