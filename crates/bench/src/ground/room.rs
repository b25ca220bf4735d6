//! A place of one's own on servers that others use too.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio_postgres::Client;

use super::Ground;
use crate::amqp::{QueueType, Rabbit};
use crate::rig::services::Services;
use crate::rig::stand::{Store, queue_variables, queues};

/// An empty database, and names of queues that are not there yet.
pub(crate) struct Room {
    /// Which kind of queue we use here, if that is settled.
    pub(crate) queue_type: Option<QueueType>,
    name: String,
    /// For files.
    pub(crate) folder: PathBuf,
    /// As we are told where the database is.
    pub(crate) database_url: String,
    /// Where RabbitMQ is, if this store has one.
    pub(crate) rabbitmq_url: Option<String>,
    /// To look at what happens, unless it is a file.
    database: Option<Client>,
}

impl Room {
    pub(super) async fn make(
        store: Store,
        name: String,
        folder: &Path,
        services: Option<&Services>,
    ) -> anyhow::Result<Self> {
        let folder = folder.join(&name);
        std::fs::create_dir_all(&folder)?;
        if store == Store::Sqlite {
            let database_url = format!("sqlite:{}", folder.join("posthaste.db").display());
            return Ok(Self {
                queue_type: None,
                name,
                folder,
                database_url,
                rabbitmq_url: None,
                database: None,
            });
        }
        let services = services.context("no servers were started")?;
        let database_url = services.make_schema(&schema(&name)).await?;
        let database = services.database().await?;
        // None of those that come by themselves in the middle of a measurement.
        database.batch_execute("CHECKPOINT").await?;
        let rabbitmq_url = match store {
            Store::Rabbitmq => services.rabbitmq_url.clone(),
            Store::Sqlite | Store::Postgres => None,
        };
        Ok(Self {
            queue_type: None,
            name,
            folder,
            database_url,
            rabbitmq_url,
            database: Some(database),
        })
    }

    /// What our process is told.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![("DATABASE_URL".to_owned(), self.database_url.clone())];
        if let Some(url) = &self.rabbitmq_url {
            variables.push(("RABBITMQ_URL".to_owned(), url.clone()));
            variables.extend(queue_variables(&self.name));
        }
        variables
    }

    /// The name of one of our queues here, such as `send`.
    pub(crate) fn queue(&self, what: &str) -> String {
        format!("{}.{what}", self.name)
    }

    /// A connection to look at what happens; none for a file.
    pub(crate) fn database(&self) -> Option<&Client> {
        self.database.as_ref()
    }

    /// How many bytes of log PostgreSQL has written so far, or 0 for a file.
    pub(crate) async fn log_bytes(&self) -> anyhow::Result<f64> {
        let Some(database) = &self.database else {
            return Ok(0.0);
        };
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
        Ok(database.query_one(sql, &[]).await?.try_get(0)?)
    }

    /// Drops everything that was made here.
    pub(crate) async fn leave(self, ground: &Ground<'_>) -> anyhow::Result<()> {
        if self.database.is_some() {
            Self::remove(&self.name, ground.services()?).await?;
        }
        std::fs::remove_dir_all(&self.folder)?;
        Ok(())
    }

    /// Drops what a room of this name had on servers, if it is still there.
    pub(super) async fn remove(name: &str, services: &Services) -> anyhow::Result<()> {
        let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", schema(name));
        services.database().await?.batch_execute(&sql).await?;
        if let Some(url) = &services.rabbitmq_url {
            let rabbit = Rabbit::connect(url).await?;
            rabbit.delete(&queues(name)).await?;
            // The probe's own.
            let theirs = ["classic", "quorum"].map(|kind| format!("anchors.probe.{kind}"));
            rabbit.delete(&theirs).await?;
        }
        Ok(())
    }
}

fn schema(name: &str) -> String {
    name.replace('-', "_")
}
