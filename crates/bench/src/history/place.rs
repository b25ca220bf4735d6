//! Databases side by side that differ only in how much past they have.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use posthaste_sink::Sink;
use tempfile::TempDir;
use tokio_postgres::Client;

use super::Options;
use super::past::{Past, fill_postgres, fill_sqlite};
use crate::amqp::Rabbit;
use crate::footprint::POSTGRES;
use crate::footprint::process::Start;
use crate::processor::Group;
use crate::rig::journal::Journal;
use crate::rig::services::{Given, Services};
use crate::rig::stand::Store;

/// The queues of a place, by the setting that names them.
const QUEUES: [(&str, &str); 3] = [("SEND", "send"), ("DEAD", "dead"), ("REVIEW", "review")];

/// A database, and how a process is started on it.
pub(super) struct Place {
    /// How many emails were over before anything was measured.
    pub(super) rows: u64,
    /// What it takes on disk.
    pub(super) size_bytes: u64,
    /// A process on it.
    pub(super) start: Start,
    /// Its tables, if it is in PostgreSQL.
    pub(super) database_url: Option<String>,
    schema: String,
}

/// All of them, and the servers that they are on.
pub(super) struct Places {
    /// In the order of the options.
    pub(super) all: Vec<Place>,
    pub(super) services: Option<Services>,
    _folder: TempDir,
}

impl Places {
    /// Starts the servers and fills all databases.
    pub(super) async fn prepare(
        binary: &Path,
        options: &Options,
        sink: &Sink,
        journal: &Journal,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let services = match options.store {
            Store::Sqlite => None,
            Store::Postgres | Store::Rabbitmq => Some(serve(options, folder.path()).await?),
        };
        let mut places = Self {
            all: Vec::new(),
            services,
            _folder: folder,
        };
        for (number, rows) in (0..).zip(&options.rows) {
            let services = places.services.as_ref();
            let folder = places._folder.path();
            let made = Place::make(binary, options, folder, services, sink, number).await;
            let mut place = made?;
            place.rows = *rows;
            place.size_bytes = place.fill(journal).await?;
            places.all.push(place);
        }
        Ok(places)
    }

    /// PostgreSQL's processes, if they can be seen.
    pub(super) fn postgres(&self) -> Option<Group> {
        self.all.first()?.postgres()
    }

    /// Takes back what was made on given servers.
    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        let Some(services) = &self.services else {
            return Ok(());
        };
        for place in &self.all {
            place.clean(services).await?;
        }
        services.clean().await
    }
}

/// Starts PostgreSQL as it is set up for every measurement, and RabbitMQ if it is used.
pub(super) async fn serve(options: &Options, folder: &Path) -> anyhow::Result<Services> {
    let given = Given {
        database_url: options.database_url.clone(),
        rabbitmq_url: options.rabbitmq_url.clone(),
        without_rabbitmq: options.store != Store::Rabbitmq,
    };
    let run = format!("history_{}", std::process::id());
    let services = Services::start(&given, folder, &run).await?;
    services.configure_postgres(&POSTGRES).await?;
    Ok(services)
}

impl Place {
    /// An up-to-date database with nothing in it.
    pub(super) async fn make(
        binary: &Path,
        options: &Options,
        folder: &Path,
        services: Option<&Services>,
        sink: &Sink,
        number: u32,
    ) -> anyhow::Result<Self> {
        let schema = format!("history_{}_{number}", std::process::id());
        let mut start = Start::new(&binary.canonicalize()?, &folder.join(&schema))
            .with("SMTP_URL", format!("{}?tls=none", sink.url()))
            .with("POSTHASTE_SMTP__MESSAGES_PER_CONNECTION", "1000");
        let database_url = match services {
            None => None,
            Some(services) => Some(services.make_schema(&schema).await?),
        };
        if let Some(url) = &database_url {
            start = start.with("DATABASE_URL", url);
        }
        if let Some(url) = services.and_then(|services| services.rabbitmq_url.as_ref()) {
            start = start.with("RABBITMQ_URL", url);
            for (setting, queue) in QUEUES {
                let name = format!("POSTHASTE_BROKER__{setting}_QUEUE");
                start = start.with(&name, format!("{schema}.{queue}"));
            }
        }
        let start = start.with_all(&options.variables);
        // Once for the schema.
        start.clone().in_role("api").ready().await?.stop().await?;
        Ok(Self {
            rows: 0,
            size_bytes: 0,
            start,
            database_url,
            schema,
        })
    }

    /// Gives it a past. The answer is its size in octets.
    async fn fill(&self, journal: &Journal) -> anyhow::Result<u64> {
        let past = Past::over(self.rows);
        match &self.database_url {
            Some(url) => fill_postgres(url, past, journal).await,
            None => fill_sqlite(&self.start.folder.join("posthaste.db"), past, journal).await,
        }
    }

    /// PostgreSQL's processes, if they can be seen.
    pub(super) fn postgres(&self) -> Option<Group> {
        Group::listening("postgres", port(self.database_url.as_deref()?)?)
    }

    /// A connection to its tables, if it is in PostgreSQL.
    pub(super) async fn database(&self) -> anyhow::Result<Option<Client>> {
        let Some(url) = &self.database_url else {
            return Ok(None);
        };
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
            .await
            .context("cannot connect to PostgreSQL")?;
        tokio::spawn(connection);
        Ok(Some(client))
    }

    /// What it costs to remove the rows that died meanwhile, for the report. Autovacuum comes less
    /// often the more rows there are, so that it may not have come at all.
    pub(super) async fn vacuumed(&self) -> anyhow::Result<Option<String>> {
        let Some(database) = self.database().await? else {
            return Ok(None);
        };
        let began = Instant::now();
        let vacuum = "VACUUM ANALYZE email_log, email, email_attempt";
        database.batch_execute(vacuum).await?;
        Ok(Some(format!(
            "{} old emails: vacuuming after all rounds took {:.2} s",
            self.rows,
            began.elapsed().as_secs_f64()
        )))
    }

    /// Removes its tables and queues.
    pub(super) async fn clean(&self, services: &Services) -> anyhow::Result<()> {
        let drop = format!("DROP SCHEMA {} CASCADE", self.schema);
        services.database().await?.batch_execute(&drop).await?;
        if let Some(url) = &services.rabbitmq_url {
            let names = ["send", "send.high", "send.low", "dead", "review"];
            let queues = names.map(|what| format!("{}.{what}", self.schema));
            Rabbit::connect(url).await?.delete(&queues).await?;
        }
        Ok(())
    }
}

/// The port in `postgresql://user@host:port/database?…`.
fn port(url: &str) -> Option<u16> {
    let server = url.split_once("://")?.1;
    let server = server.split(['/', '?']).next()?;
    server.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn the_port_is_found_in_a_url() {
        assert_eq!(
            port("postgresql://me:secret@127.0.0.1:5433/db?a=b"),
            Some(5433)
        );
        assert_eq!(port("postgresql://127.0.0.1:5433"), Some(5433));
        assert_eq!(port("postgresql://127.0.0.1/db"), None);
    }
}
