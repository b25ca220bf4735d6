//! What a scenario runs on: where emails are kept, and where their tickets wait.
//!
//! A scenario is an ordinary `async fn name(backend: &Backend)`, listed in `on_every_backend!`,
//! which writes one test per backend. One that is not listed is never run, and the compiler says
//! so; `with_tickets` are those that PostgreSQL alone has no steps for. SQLite with RabbitMQ is left
//! out there: a file that only one process may serve has no use for a queue that several share.
//! Messages of other services need RabbitMQ whatever the store is: `on_both_stores!`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use posthaste_sink::Sink;
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use posthaste_testkit::{Database, Proxy, Queues};
use tempfile::TempDir;

/// Where emails are kept.
pub(crate) enum Store {
    Sqlite(TempDir),
    Postgres(Database),
}

/// What all processes of one test share. Nothing of it is left when it is dropped.
pub(crate) struct Backend {
    pub(crate) store: Store,
    queues: Option<Queues>,
}

impl Backend {
    /// SQLite and the queue in the process.
    pub(crate) async fn sqlite() -> Self {
        Self {
            store: Store::Sqlite(tempfile::tempdir().unwrap()),
            queues: None,
        }
    }

    /// PostgreSQL alone: senders claim from it.
    pub(crate) async fn postgres() -> Self {
        Self {
            store: Store::Postgres(Database::fresh().await),
            queues: None,
        }
    }

    /// SQLite and RabbitMQ.
    pub(crate) async fn sqlite_and_rabbitmq() -> Self {
        Self {
            queues: Some(Queues::fresh()),
            ..Self::sqlite().await
        }
    }

    /// PostgreSQL and RabbitMQ.
    pub(crate) async fn postgres_and_rabbitmq() -> Self {
        Self::with_queues(Queues::fresh()).await
    }

    /// PostgreSQL and these queues.
    pub(crate) async fn with_queues(queues: Queues) -> Self {
        Self {
            queues: Some(queues),
            ..Self::postgres().await
        }
    }

    /// The real binary on this, not started yet.
    pub(crate) fn posthaste(&self) -> PosthasteBuilder {
        let builder = Posthaste::builder(env!("CARGO_BIN_EXE_posthaste"));
        let builder = match &self.store {
            Store::Sqlite(folder) => builder.data_dir(folder.path()),
            Store::Postgres(database) => builder.env("DATABASE_URL", database.url()),
        };
        let variables = self.queues.iter().flat_map(Queues::variables);
        variables.fold(builder, |builder, (name, value)| builder.env(name, value))
    }

    /// The real binary on this, sending to this sink, with short delays.
    pub(crate) fn sending_to(&self, sink: &Sink) -> PosthasteBuilder {
        self.posthaste()
            .env("SMTP_URL", format!("{}?tls=none", sink.url()))
            .env("BACKOFF_SCHEDULE", "100ms")
            .env("LEASE_SECONDS", "1")
    }

    /// The queues, on RabbitMQ.
    pub(crate) fn queues(&self) -> &Queues {
        self.queues.as_ref().unwrap()
    }

    /// The database, on PostgreSQL.
    pub(crate) fn database(&self) -> &Database {
        match &self.store {
            Store::Postgres(database) => database,
            Store::Sqlite(_) => panic!("this is SQLite"),
        }
    }

    /// The variable that leads a process to RabbitMQ by way of a proxy.
    pub(crate) fn rabbitmq_by_way_of(&self, proxy: &Proxy) -> (&'static str, String) {
        ("RABBITMQ_URL", proxy.by_way_of(self.queues().url()))
    }

    /// What PostgreSQL keeps about where an email is in its life.
    pub(crate) async fn row(&self, id: &str) -> Row {
        let id: uuid::Uuid = id.parse().unwrap();
        let sql = "SELECT status, attempt_count, next_attempt_at, started_at, locked_until,
                       last_queued_at, worker, posthaste_now()
                   FROM email_log WHERE id = $1";
        let client = self.database().beside().await;
        let row = client.query_one(sql, &[&id]).await.unwrap();
        Row {
            status: row.get(0),
            attempt_count: row.get(1),
            next_attempt_at: row.get(2),
            started_at: row.get(3),
            locked_until: row.get(4),
            last_queued_at: row.get(5),
            worker: row.get(6),
            now: row.get(7),
        }
    }

    /// Makes all failed emails due behind everyone's back, as if their backoff had been short,
    /// and says how many there were.
    pub(crate) async fn make_failed_due(&self) -> u64 {
        let sql = "WITH due AS (
                       UPDATE email_log SET next_attempt_at = posthaste_now()
                       WHERE status = 'failed' RETURNING id, attempt_number, next_attempt_at)
                   UPDATE email_attempt a SET next_attempt_at = due.next_attempt_at
                   FROM due WHERE a.email_id = due.id AND a.number = due.attempt_number";
        let client = self.database().beside().await;
        client.execute(sql, &[]).await.unwrap()
    }

    /// What a table is called. An application may have its own in the same SQLite file, so ours are
    /// marked there.
    pub(crate) fn table(&self, name: &str) -> String {
        match &self.store {
            Store::Sqlite(_) => format!("posthaste_{name}"),
            Store::Postgres(_) => name.to_owned(),
        }
    }

    pub(crate) fn file(folder: &TempDir) -> rusqlite::Connection {
        rusqlite::Connection::open(folder.path().join("posthaste.db")).unwrap()
    }

    /// Status and phase of an email, read beside the server.
    pub(crate) async fn status_and_phase(&self, id: &str) -> (String, String) {
        let id: uuid::Uuid = id.parse().unwrap();
        match &self.store {
            Store::Sqlite(folder) => {
                let sql = "SELECT status, phase FROM posthaste_email_log WHERE id = ?1";
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let id = [id.as_bytes().as_slice()];
                Self::file(folder).query_row(sql, id, row).unwrap()
            }
            Store::Postgres(database) => {
                let sql = "SELECT status, phase FROM email_log WHERE id = $1";
                let client = database.beside().await;
                let row = client.query_one(sql, &[&id]).await.unwrap();
                (row.get(0), row.get(1))
            }
        }
    }

    /// Until when an email is held, and what time it is there.
    pub(crate) async fn locked_until_and_now(&self, id: &str) -> (Timestamp, Timestamp) {
        let id: uuid::Uuid = id.parse().unwrap();
        match &self.store {
            Store::Sqlite(folder) => {
                let sql = "SELECT locked_until FROM posthaste_email_log WHERE id = ?1";
                let until: i64 = Self::file(folder)
                    .query_row(sql, [id.as_bytes().as_slice()], |row| row.get(0))
                    .unwrap();
                let until = Timestamp::from_microsecond(until).unwrap();
                (until, Timestamp::now())
            }
            Store::Postgres(database) => {
                let sql = "SELECT locked_until, posthaste_now() FROM email_log WHERE id = $1";
                let client = database.beside().await;
                let row = client.query_one(sql, &[&id]).await.unwrap();
                (row.get(0), row.get(1))
            }
        }
    }

    /// How many emails there are in each state, counted row by row.
    pub(crate) async fn rows_by_status(&self) -> BTreeMap<String, u64> {
        let log = self.table("email_log");
        let sql = format!("SELECT status, count(*) FROM {log} GROUP BY status");
        let counted = |status: String, n: i64| (status, n.unsigned_abs());
        match &self.store {
            Store::Sqlite(folder) => Self::file(folder)
                .prepare(&sql)
                .unwrap()
                .query_map([], |row| Ok(counted(row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect(),
            Store::Postgres(database) => {
                let rows = database.beside().await.query(&sql, &[]).await.unwrap();
                rows.iter()
                    .map(|row| counted(row.get(0), row.get(1)))
                    .collect()
            }
        }
    }
}

/// Where an email is in its life.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) status: String,
    pub(crate) attempt_count: i32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) last_queued_at: Option<Timestamp>,
    pub(crate) worker: Option<String>,
    /// What time it is there.
    pub(crate) now: Timestamp,
}

/// Writes one test per scenario and backend.
macro_rules! on_every_backend {
    ($($scenario:ident,)+ $(; with_tickets: $($ticketed:ident,)+)?) => {
        mod sqlite {
            $(crate::backend::scenario!(sqlite, $scenario);)+
            $($(crate::backend::scenario!(sqlite, $ticketed);)+)?
        }

        mod postgres {
            $(crate::backend::scenario!(postgres, $scenario);)+
        }

        mod postgres_and_rabbitmq {
            $(crate::backend::scenario!(postgres_and_rabbitmq, $scenario);)+
            $($(crate::backend::scenario!(postgres_and_rabbitmq, $ticketed);)+)?
        }
    };
}
pub(crate) use on_every_backend;

/// Writes one test per scenario and store, each with RabbitMQ.
macro_rules! on_both_stores {
    ($($scenario:ident,)+) => {
        mod sqlite_and_rabbitmq {
            $(crate::backend::scenario!(sqlite_and_rabbitmq, $scenario);)+
        }

        mod postgres_and_rabbitmq {
            $(crate::backend::scenario!(postgres_and_rabbitmq, $scenario);)+
        }
    };
}
pub(crate) use on_both_stores;

macro_rules! scenario {
    ($backend:ident, $scenario:ident) => {
        #[tokio::test]
        async fn $scenario() {
            super::$scenario(&crate::backend::Backend::$backend().await).await;
        }
    };
}
pub(crate) use scenario;
