//! SQLite does what every store must do, and its `verify` finds what was done behind its back.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::SharedStore;
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::store_conformance::StoreFixture;
use posthaste_testkit::store_tampering::Tamperable;
use posthaste_testkit::{ManualClock, store_conformance, store_tampering};
use tempfile::TempDir;

struct Sqlite {
    store: SharedStore,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl Sqlite {
    async fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new());
        Self {
            store: open(&folder, &clock),
            clock,
            folder,
        }
    }
}

fn open(folder: &TempDir, clock: &Arc<ManualClock>) -> SharedStore {
    let mut options = SqliteOptions::new(folder.path().join("posthaste.db"));
    options.clock = clock.clone();
    Arc::new(SqliteStore::open(options).unwrap())
}

impl StoreFixture for Sqlite {
    fn store(&self) -> SharedStore {
        Arc::clone(&self.store)
    }

    async fn another(&self) -> SharedStore {
        open(&self.folder, &self.clock)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Tamperable for Sqlite {
    async fn execute(&self, sql: &str) -> u64 {
        let beside = rusqlite::Connection::open(self.folder.path().join("posthaste.db")).unwrap();
        let sql = sql.replace("{prefix}", "posthaste_");
        beside.execute(&sql, []).unwrap() as u64
    }

    fn literal(&self, id: EmailId) -> String {
        format!("x'{}'", id.0.simple())
    }
}

store_conformance!(Sqlite::fresh());
store_tampering!(Sqlite::fresh());
