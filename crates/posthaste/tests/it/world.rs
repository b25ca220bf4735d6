//! An application's database, a mail server, and an outbox between them, on both databases.

use std::path::PathBuf;

use posthaste::{Email, Outbox, OutboxBuilder};
use posthaste_core::port::DeskStore as _;
use posthaste_sink::{Sink, SinkConfig};
use posthaste_store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use posthaste_testkit::Database;

/// An address at which nobody listens.
pub(crate) const NOBODY: &str = "smtp://127.0.0.1:1";

/// The application's own database.
pub(crate) enum Own {
    Sqlite(tempfile::TempDir),
    Postgres(Box<Database>),
}

impl Own {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Box::new(Database::fresh().await))
    }

    pub(crate) async fn both() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    /// Its file, or its URL.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(folder) => file(folder).to_str().unwrap().to_owned(),
            Self::Postgres(database) => database.url(),
        }
    }

    pub(crate) fn builder(&self) -> OutboxBuilder {
        builder(&self.place(), &self.schema())
    }

    /// Where the outbox has its tables in PostgreSQL: not where the application has its own.
    pub(crate) fn schema(&self) -> String {
        match self {
            Self::Sqlite(_) => String::new(),
            Self::Postgres(database) => database.second_schema(),
        }
    }

    pub(crate) async fn outbox(&self, smtp: &str) -> Outbox {
        self.builder().smtp(smtp).open().await.unwrap()
    }

    /// Every promise holds.
    pub(crate) async fn verify(&self) {
        let violations = match self {
            Self::Sqlite(folder) => {
                let store = SqliteStore::open(SqliteOptions::new(file(folder))).unwrap();
                store.verify(&[]).await
            }
            Self::Postgres(database) => {
                let mut options = PostgresOptions::new(database.url());
                options.schema = Some(database.second_schema());
                let store = PostgresStore::open(options).await.unwrap();
                store.verify(&[]).await
            }
        };
        assert_eq!(violations.unwrap(), []);
    }
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("app.db")
}

/// How the outbox at this place is opened.
pub(crate) fn builder(place: &str, schema: &str) -> OutboxBuilder {
    if place.starts_with("postgres") {
        Outbox::postgres(place).schema(schema)
    } else {
        Outbox::sqlite(place)
    }
}

/// A mail server that takes everything, unless the recipient's name says otherwise.
pub(crate) async fn sink() -> Sink {
    let config = SinkConfig {
        keep_messages: true,
        ..SinkConfig::default()
    };
    Sink::start(config).await.unwrap()
}

pub(crate) fn an_email(to: &str) -> Email {
    Email::new("Studio <studio@example.org>", format!("{to}@example.org"))
        .subject("Your booking")
        .text("See you on Friday.")
}
