//! A small pool of connections that only read.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste_core::port::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::store_error;
use super::{SqliteOptions, open_to_read};

/// Hands out connections, opened on demand.
pub(super) struct Readers {
    permits: Arc<Semaphore>,
    shared: Arc<Shared>,
}

struct Shared {
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(options: SqliteOptions) -> Self {
        let permits = Arc::new(Semaphore::new(options.readers.max(1)));
        Self {
            permits,
            shared: Arc::new(Shared {
                options,
                idle: Mutex::default(),
            }),
        }
    }

    /// Runs a query on a thread where it may block.
    pub(super) async fn run<T, F>(&self, query: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(unavailable)?;
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            // Held until the query ends, also when nobody waits for it any more.
            let _permit = permit;
            let idle = shared
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let connection = match idle {
                Some(connection) => connection,
                None => open_to_read(&shared.options).map_err(store_error)?,
            };
            let result = query(&connection).map_err(store_error);
            shared
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            result
        })
        .await
        .map_err(unavailable)?
    }
}

fn unavailable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
