//! PostgreSQL and RabbitMQ: private ones that may be crashed, or given ones that may not.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::process::Command;
use tokio_postgres::{Client, NoTls};

/// PostgreSQL as the figures of others were taken: everything on disk before it counts, and no
/// checkpoint in the middle of a measurement.
pub(crate) const AS_ANCHORS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "2GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("shared_preload_libraries", "pg_stat_statements"),
];

/// Writes two gigabytes, a page for each row, and throws them away.
const WARM_UP: &str = "CREATE TABLE warm_up (filling text);
     ALTER TABLE warm_up ALTER filling SET STORAGE PLAIN;
     INSERT INTO warm_up
         SELECT repeat(md5(i::text), 240) FROM generate_series(1, 262144) i;
     DROP TABLE warm_up";

/// Which servers are given. The others are started, unless they are not wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) database_url: Option<String>,
    pub(crate) rabbitmq_url: Option<String>,
    pub(crate) without_rabbitmq: bool,
}

/// The servers, and where they are.
pub(crate) struct Services {
    private: Option<Private>,
    /// Where everyone finds PostgreSQL.
    pub(crate) database_url: String,
    /// Where everyone finds RabbitMQ, if it is used.
    pub(crate) rabbitmq_url: Option<String>,
    /// A schema on a given server.
    schema: Option<Schema>,
}

struct Schema {
    server: String,
    name: String,
}

impl Services {
    /// Starts what is not given. Takes some seconds.
    pub(crate) async fn start(given: &Given, folder: &Path, run: &str) -> anyhow::Result<Self> {
        let mut wanted = Vec::new();
        if given.database_url.is_none() {
            wanted.push("postgres");
        }
        if given.rabbitmq_url.is_none() && !given.without_rabbitmq {
            wanted.push("rabbitmq");
        }
        let private = match wanted.is_empty() {
            true => None,
            false => Some(Private::start(folder.join("services"), &wanted).await?),
        };
        let own = |variable: &str| {
            private
                .as_ref()
                .and_then(|private| private.variable(variable))
        };
        let rabbitmq_url = match &given.rabbitmq_url {
            _ if given.without_rabbitmq => None,
            Some(url) => Some(url.clone()),
            None => Some(own("TEST_RABBITMQ_URL").context("RabbitMQ has no address")?),
        };
        let (database_url, schema) = match &given.database_url {
            None => {
                let url = own("TEST_DATABASE_URL").context("PostgreSQL has no address")?;
                (url, None)
            }
            Some(server) => {
                let name = run.replace('-', "_");
                execute(server, &format!("CREATE SCHEMA {name}")).await?;
                let server = server.clone();
                (within(&server, &name), Some(Schema { server, name }))
            }
        };
        Ok(Self {
            private,
            database_url,
            rabbitmq_url,
            schema,
        })
    }

    /// A connection of our own.
    pub(crate) async fn database(&self) -> anyhow::Result<Client> {
        connect(&self.database_url).await
    }

    /// The server itself, without a schema of ours.
    pub(crate) fn server_url(&self) -> &str {
        let given = self.schema.as_ref().map(|schema| &schema.server);
        given.unwrap_or(&self.database_url)
    }

    /// Makes one more schema; the answer is how its tables are reached.
    pub(crate) async fn make_schema(&self, name: &str) -> anyhow::Result<String> {
        let server = self.server_url();
        execute(server, &format!("CREATE SCHEMA {name}")).await?;
        Ok(within(server, name))
    }

    /// Has a PostgreSQL of our own work with other settings from now on. The answer is whether it
    /// is ours.
    pub(crate) async fn configure_postgres(
        &self,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<bool> {
        if self.schema.is_some() {
            return Ok(false);
        }
        let database = self.database().await?;
        for (name, value) in settings {
            let sql = format!("ALTER SYSTEM SET {name} = '{value}'");
            database.batch_execute(&sql).await?;
        }
        self.restart_postgres(Duration::ZERO).await?;
        Ok(true)
    }

    /// Has PostgreSQL use all of its shared memory once, and leaves files of its log behind that
    /// can be used again, as on a server that has run for a while: on a new one, whoever comes
    /// first pays for both. Takes some ten seconds.
    pub(crate) async fn warm_postgres(&self) -> anyhow::Result<()> {
        let database = self.database().await?;
        database.batch_execute(WARM_UP).await?;
        // Only now is the table gone, and need not be written.
        Ok(database.batch_execute("CHECKPOINT").await?)
    }

    /// Crashes PostgreSQL and starts it again on the same data, after a while.
    pub(crate) async fn restart_postgres(&self, away: Duration) -> anyhow::Result<()> {
        let private = self.private.as_ref().context("it is not ours to restart")?;
        private.run(&["crash", "postgres"]).await?;
        tokio::time::sleep(away).await;
        private.run(&["revive", "postgres"]).await?;
        self.database().await?.batch_execute("SELECT 1").await?;
        Ok(())
    }

    /// Crashes RabbitMQ and starts it again on the same data.
    pub(crate) async fn restart_rabbitmq(&self) -> anyhow::Result<()> {
        self.restart_rabbitmq_after(Duration::ZERO).await
    }

    /// Crashes RabbitMQ and starts it again on the same data, after a while.
    pub(crate) async fn restart_rabbitmq_after(&self, away: Duration) -> anyhow::Result<()> {
        let private = self.private.as_ref().context("it is not ours to restart")?;
        private.run(&["crash", "rabbitmq"]).await?;
        tokio::time::sleep(away).await;
        private.run(&["revive", "rabbitmq"]).await.map(drop)
    }

    /// Tells RabbitMQ how much of the machine's memory it may use. With next to nothing it is in
    /// alarm, and blocks everyone who publishes.
    pub(crate) async fn limit_rabbitmq_memory(&self, share: &str) -> anyhow::Result<()> {
        let private = self.private.as_ref().context("it is not ours to limit")?;
        let arguments = ["rabbitmqctl", "set_vm_memory_high_watermark", share];
        private.run(&arguments).await.map(drop)
    }

    /// Takes back what was made on given servers.
    pub(crate) async fn clean(&self) -> anyhow::Result<()> {
        if let Some(Schema { server, name }) = &self.schema {
            execute(server, &format!("DROP SCHEMA {name} CASCADE")).await?;
        }
        Ok(())
    }
}

/// The tables of a schema on a server.
fn within(server: &str, schema: &str) -> String {
    let separator = if server.contains('?') { '&' } else { '?' };
    format!("{server}{separator}options=-csearch_path%3D{schema}")
}

/// A connection to PostgreSQL.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("cannot connect to PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}

async fn execute(url: &str, sql: &str) -> anyhow::Result<()> {
    Ok(connect(url).await?.batch_execute(sql).await?)
}

/// Servers that `scripts/services` started in a folder of ours; stopped when this is dropped.
struct Private {
    script: PathBuf,
    folder: PathBuf,
    /// What `scripts/services env` says.
    environment: String,
}

impl Private {
    async fn start(folder: PathBuf, wanted: &[&str]) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
        ensure!(script.is_file(), "{} is not there", script.display());
        let mut private = Self {
            script,
            folder,
            environment: String::new(),
        };
        private.run(&[&["start"], wanted].concat()).await?;
        private.environment = private.run(&["env"]).await?;
        Ok(private)
    }

    /// Runs a command of the script and gives what it says.
    async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.script);
        command
            .args(arguments)
            .env("POSTHASTE_SERVICES_DIR", &self.folder)
            .stdin(Stdio::null());
        output_of(command).await
    }

    /// A variable out of `export A=… B=…`.
    fn variable(&self, name: &str) -> Option<String> {
        self.environment
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Nothing else can be done if it fails; it says why on stderr.
        let _ = std::process::Command::new(&self.script)
            .arg("stop")
            .env("POSTHASTE_SERVICES_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
    }
}

/// What a command that must not fail writes. Its output goes to a file: a server that it leaves
/// behind would keep a pipe open for ever.
async fn output_of(mut command: Command) -> anyhow::Result<String> {
    let written = tempfile::NamedTempFile::new()?;
    let complaints = tempfile::NamedTempFile::new()?;
    command
        .stdout(written.reopen()?)
        .stderr(complaints.reopen()?)
        .process_group(0);
    let status = command.status().await?;
    if !status.success() {
        let why = std::fs::read_to_string(complaints.path())?;
        let said = std::fs::read_to_string(written.path())?;
        bail!("{:?} failed: {status}\n{said}{why}", command.as_std());
    }
    Ok(std::fs::read_to_string(written.path())?)
}
