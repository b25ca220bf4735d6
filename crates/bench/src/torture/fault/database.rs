//! Faults of the database and of the way to it.

use std::time::Duration;

use anyhow::Context as _;
use rusqlite::Connection;

use super::{Fault, Stage};
use crate::evidence::stored::Books;
use crate::rig::proxy::Network;
use crate::rig::services;

/// How much longer each message takes, in each direction.
const SLOW: Duration = Duration::from_millis(40);

impl Stage<'_> {
    pub(super) async fn trouble_database(
        &self,
        fault: Fault,
        length: Duration,
    ) -> anyhow::Result<()> {
        let network = match fault {
            Fault::DatabaseRestarts => {
                let services = self.services.context("no PostgreSQL")?;
                return services.restart_postgres(length).await;
            }
            Fault::DatabaseIsLocked => return self.lock_database(length).await,
            Fault::DatabaseIsCut => Network::Cut,
            Fault::DatabaseIsSilent => Network::Silent,
            Fault::DatabaseIsSlow => Network::Slow(SLOW),
            _ => Network::LosesReplies,
        };
        let way = self.database_network.context("no PostgreSQL")?;
        way.set(network);
        tokio::time::sleep(length).await;
        way.set(Network::Works);
        Ok(())
    }

    /// Somebody else holds everything.
    async fn lock_database(&self, length: Duration) -> anyhow::Result<()> {
        match &self.books {
            Books::Postgres(url) => {
                let database = services::connect(url).await?;
                let lock = "BEGIN; LOCK TABLE email_log IN ACCESS EXCLUSIVE MODE";
                database.batch_execute(lock).await?;
                tokio::time::sleep(length).await;
                database.batch_execute("ROLLBACK").await?;
            }
            Books::Sqlite(path) => {
                let path = path.clone();
                let locking = move || {
                    let file = Connection::open(path)?;
                    file.busy_timeout(Duration::from_secs(10))?;
                    file.execute_batch("BEGIN IMMEDIATE")?;
                    std::thread::sleep(length);
                    file.execute_batch("ROLLBACK")
                };
                tokio::task::spawn_blocking(locking).await??;
            }
        }
        Ok(())
    }
}
