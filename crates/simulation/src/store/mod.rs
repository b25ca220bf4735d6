//! A store in memory that outlives processes, and fails as databases do: before a commit, after it
//! with the answer lost, slowly, or altogether for a while.
//!
//! What it does with emails is `posthaste_store::ledger`, as both databases do it; here are only rows
//! and searches. Each process has a [`MemoryStore`] of its own over the one [`Database`].

mod books;
mod desk;
mod email;
mod rest;
mod row;
mod table;
mod transaction;
mod way;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::port::{Store, StoreError, StoreResult};
use posthaste_engine::Policies;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::row::Row;
pub(crate) use self::table::Tables;
use self::transaction::Transaction;
use crate::nature::Nature;
use crate::plan::StoreRates;
use crate::planted::PlantedBug;
use crate::process::Process;

/// What all processes share.
pub(crate) struct Database {
    nature: Arc<Nature>,
    rates: StoreRates,
    planted: Option<PlantedBug>,
    policies: Arc<Policies>,
    tables: Mutex<Tables>,
    away_until: Mutex<Option<Instant>>,
    changed: Notify,
}

/// The database as one process sees it.
pub(crate) struct MemoryStore {
    database: Arc<Database>,
    process: Arc<Process>,
}

impl Database {
    pub(crate) fn new(
        nature: Arc<Nature>,
        rates: StoreRates,
        planted: Option<PlantedBug>,
        policies: Arc<Policies>,
    ) -> Arc<Self> {
        Arc::new(Self {
            nature,
            rates,
            planted,
            policies,
            tables: Mutex::default(),
            away_until: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// The tables, for whoever is not a process of ours: the checks.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn away_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let away = self.away_until.lock();
        away.unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody reaches it for this long.
    pub(crate) fn go_away(&self, time: Duration) {
        *self.away_until() = Some(Instant::now() + time);
    }

    /// It can be reached again.
    pub(crate) fn come_back(&self) {
        *self.away_until() = None;
    }

    fn is_away(&self) -> bool {
        self.away_until()
            .is_some_and(|until| until > Instant::now())
    }

    /// A process died. What it was told is durable, unless someone planted a bug.
    pub(crate) fn bury(&self, process: &Process) {
        self.tables().forget_unsynced(&process.name);
    }
}

impl MemoryStore {
    pub(crate) fn new(database: Arc<Database>, process: Arc<Process>) -> Self {
        Self { database, process }
    }

    fn nature(&self) -> &Nature {
        &self.database.nature
    }

    /// One call: on its way there, committed or not, on its way back.
    async fn call<T>(
        &self,
        what: &'static str,
        commit: impl FnOnce(&mut Transaction<'_>) -> T + Send,
    ) -> StoreResult<T>
    where
        T: Send,
    {
        let (nature, rates) = (self.nature(), &self.database.rates);
        self.process.point(what).await;
        self.linger("store: slow before the commit").await;
        self.process.alive().await;
        let away = self.database.is_away();
        if away {
            nature.count("store: away");
        }
        if away || nature.strikes("store: failed before the commit", rates.fails) {
            nature.say(&self.process.name, || format!("{what}: not committed"));
            self.process.point(what).await;
            return Err(StoreError::Unavailable("as the simulation wants".into()));
        }
        let done = {
            let mut tables = self.database.tables();
            let mut transaction = Transaction::new(&self.database, &mut tables, &self.process.name);
            commit(&mut transaction)
        };
        self.process.point(what).await;
        self.linger("store: slow after the commit").await;
        self.process.awake().await;
        if nature.strikes("store: committed, answer lost", rates.loses_answer) {
            nature.say(&self.process.name, || {
                format!("{what}: committed, the answer is lost")
            });
            return Err(StoreError::Unavailable("the answer is lost".into()));
        }
        Ok(done)
    }

    /// Takes a moment, or long.
    async fn linger(&self, fault: &'static str) {
        let (nature, rates) = (self.nature(), &self.database.rates);
        let slow = nature.strikes(fault, rates.is_slow);
        let time = nature.draw(|random| match random.below(8) {
            _ if slow => random.milliseconds(5, rates.slowness),
            0..6 => Duration::ZERO,
            _ => random.milliseconds(1, 4),
        });
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    /// Others are told that something changed, or not.
    fn tell_others(&self) {
        let silent = self.database.rates.silent;
        if !self.nature().strikes("store: others not notified", silent) {
            self.database.changed.notify_waiters();
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn now(&self) -> Timestamp {
        self.nature().now()
    }

    async fn changed(&self) {
        self.database.changed.notified().await;
        self.process.awake().await;
    }

    async fn check(&self) -> StoreResult<()> {
        self.call("check", |_| ()).await
    }
}
