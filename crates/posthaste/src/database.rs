//! The application's own database, in which the outbox has its tables.

use std::sync::Arc;

use posthaste_core::port::{Clock, SharedStore, StoreError};

use crate::Error;

/// Which database.
pub(crate) enum Database {
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    #[cfg(feature = "postgres")]
    Postgres { url: String, schema: String },
}

/// The store itself, for transactions of the application's own.
pub(crate) enum Backend {
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<posthaste_store::SqliteStore>),
    #[cfg(feature = "postgres")]
    Postgres(Arc<posthaste_store::PostgresStore>),
}

/// A database that was opened.
pub(crate) struct Opened {
    pub(crate) store: SharedStore,
    pub(crate) backend: Backend,
}

impl Database {
    /// Why this cannot be one.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let path = path.to_str().unwrap_or("a file");
                let is_one = path.is_empty()
                    || [":memory:", "file:", "sqlite:"]
                        .iter()
                        .any(|start| path.starts_with(start));
                let message = "is no file; give a plain path such as app.db (an outbox in memory \
                               would lose mail)";
                is_one.then(|| message.to_owned())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => None,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn set_schema(&mut self, name: String) {
        match self {
            Self::Postgres { schema, .. } => *schema = name,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// Opens it and brings our tables up to date.
    #[cfg_attr(not(feature = "sqlite"), expect(unused_variables))]
    pub(crate) async fn open(self, clock: Arc<dyn Clock>) -> Result<Opened, Error> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                use posthaste_store::{SqliteOptions, SqliteStore};
                let place = path.display().to_string();
                let mut options = SqliteOptions::new(path);
                options.clock = clock;
                let opened = tokio::task::spawn_blocking(move || SqliteStore::open(options));
                let closed = |_| StoreError::Unavailable("the runtime is stopping".to_owned());
                let store = opened.await.map_err(closed).flatten();
                let store = store.map_err(|error| cannot_open(&place, &error))?;
                let store = Arc::new(store);
                Ok(Opened {
                    store: Arc::<SqliteStore>::clone(&store),
                    backend: Backend::Sqlite(store),
                })
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { url, schema } => {
                use posthaste_store::{PostgresOptions, PostgresStore};
                let mut options = PostgresOptions::new(url);
                options.schema = Some(schema);
                options.connections = 4;
                options.writers = 1;
                let store = PostgresStore::open(options).await;
                let store = store.map_err(|error| cannot_open("PostgreSQL", &error))?;
                let store = Arc::new(store);
                Ok(Opened {
                    store: Arc::<PostgresStore>::clone(&store),
                    backend: Backend::Postgres(store),
                })
            }
        }
    }
}

fn cannot_open(place: &str, error: &StoreError) -> Error {
    Error::Database {
        message: format!("cannot open the database {place}: {error}"),
        is_transient: matches!(error, StoreError::Unavailable(_)),
    }
}
