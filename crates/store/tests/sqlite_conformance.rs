//! SQLite does what every store must do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::port::SharedStore;
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::store_conformance::StoreFixture;
use posthaste_testkit::{ManualClock, store_conformance};
use tempfile::TempDir;

struct Sqlite {
    store: SharedStore,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

impl Sqlite {
    async fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new());
        let mut options = SqliteOptions::new(folder.path().join("posthaste.db"));
        options.clock = clock.clone();
        Self {
            store: Arc::new(SqliteStore::open(options).unwrap()),
            clock,
            _folder: folder,
        }
    }
}

impl StoreFixture for Sqlite {
    fn store(&self) -> SharedStore {
        Arc::clone(&self.store)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

store_conformance!(Sqlite::fresh());
