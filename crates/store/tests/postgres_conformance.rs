//! PostgreSQL does what every store must do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_core::port::{SharedStore, Store as _};
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::store_conformance::StoreFixture;
use posthaste_testkit::{Database, store_conformance};

struct Postgres {
    store: SharedStore,
    offset: Arc<AtomicI64>,
    _database: Database,
}

impl Postgres {
    async fn fresh() -> Self {
        let database = Database::fresh().await;
        let mut options = PostgresOptions::new(database.url());
        options.connections = 4;
        let offset = Arc::clone(&options.clock_offset);
        Self {
            store: Arc::new(PostgresStore::open(options).await.unwrap()),
            offset,
            _database: database,
        }
    }
}

impl StoreFixture for Postgres {
    fn store(&self) -> SharedStore {
        Arc::clone(&self.store)
    }

    /// Moves the database's time on for all sessions of this store, and lets it notice.
    async fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        self.offset.fetch_add(by, Ordering::SeqCst);
        self.store.check().await.unwrap();
    }
}

store_conformance!(Postgres::fresh());
