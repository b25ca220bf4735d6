//! PostgreSQL does what every store must do, and its `verify` finds what was done behind its back.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::SharedStore;
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::store_conformance::StoreFixture;
use posthaste_testkit::store_tampering::Tamperable;
use posthaste_testkit::{Database, store_conformance, store_tampering};

struct Postgres {
    store: SharedStore,
    offset: Arc<AtomicI64>,
    database: Database,
}

impl Postgres {
    async fn fresh() -> Self {
        let database = Database::fresh().await;
        let offset = Arc::default();
        Self {
            store: open(&database, &offset).await,
            offset,
            database,
        }
    }
}

async fn open(database: &Database, offset: &Arc<AtomicI64>) -> SharedStore {
    let mut options = PostgresOptions::new(database.url());
    options.connections = 4;
    options.clock_offset = Arc::clone(offset);
    Arc::new(PostgresStore::open(options).await.unwrap())
}

impl StoreFixture for Postgres {
    fn store(&self) -> SharedStore {
        Arc::clone(&self.store)
    }

    async fn another(&self) -> SharedStore {
        open(&self.database, &self.offset).await
    }

    /// Moves the database's time on for all sessions of this store, and lets it notice.
    async fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        self.offset.fetch_add(by, Ordering::SeqCst);
        self.store.check().await.unwrap();
    }
}

impl Tamperable for Postgres {
    async fn execute(&self, sql: &str) -> u64 {
        self.database
            .beside()
            .await
            .execute(&sql.replace("{prefix}", ""), &[])
            .await
            .unwrap()
    }

    fn literal(&self, id: EmailId) -> String {
        format!("'{id}'")
    }
}

store_conformance!(Postgres::fresh());
store_tampering!(Postgres::fresh());
