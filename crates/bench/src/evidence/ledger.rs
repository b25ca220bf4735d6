//! What the clients saw: the only witness that does not belong to the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, bail};
use uuid::Uuid;

/// How an email must end, whatever happens on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every recipient is good, in the end.
    Delivered,
    /// No recipient ever takes it: it is dead, and nobody has a copy.
    Dead,
    /// One recipient takes it, another never does: it is dead, and the first has a copy.
    Partly,
    /// The server takes it and never says so: it stays unknown, or is given up.
    Uncertain,
    /// It is withdrawn long before its time.
    Cancelled,
}

/// An answer that was neither an acceptance nor expected.
pub(crate) struct Refusal {
    pub(crate) at: Instant,
    pub(crate) status: u16,
    /// When, where and what, for people.
    pub(crate) what: String,
}

/// One email, as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) expected: Expected,
    /// Once it was accepted.
    pub(crate) id: Option<Uuid>,
    /// Whether a client was told that the mail server has it.
    pub(crate) told_sent: bool,
}

/// The ids that were given for the keys, and everything that went wrong.
pub(crate) struct Ledger {
    run: String,
    entries: Mutex<Vec<Entry>>,
    accepted: AtomicU64,
    /// Answers 200: an earlier request with the same key had been committed.
    replayed: AtomicU64,
    /// Requests without an answer.
    unanswered: AtomicU64,
    refusals: Mutex<Vec<Refusal>>,
}

impl Ledger {
    pub(crate) fn new(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            entries: Mutex::default(),
            accepted: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            refusals: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an entry for an email that is about to be posted; its number and its message key.
    pub(crate) fn open(&self, expected: Expected) -> (usize, String) {
        let mut entries = self.lock();
        let number = entries.len();
        let key = format!("{}-{number}", self.run);
        entries.push(Entry {
            key: key.clone(),
            expected,
            id: None,
            told_sent: false,
        });
        (number, key)
    }

    pub(crate) fn accept(&self, number: usize, id: Uuid, is_replay: bool) -> anyhow::Result<()> {
        let mut entries = self.lock();
        let entry = entries.get_mut(number).context("no such entry")?;
        if *entry.id.get_or_insert(id) != id {
            bail!("key {} was given two ids", entry.key);
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.replayed
            .fetch_add(u64::from(is_replay), Ordering::Relaxed);
        Ok(())
    }

    /// A client was told that the mail server has it.
    pub(crate) fn tell_sent(&self, number: usize) {
        if let Some(entry) = self.lock().get_mut(number) {
            entry.told_sent = true;
        }
    }

    pub(crate) fn no_answer(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.refusals().push(refusal);
    }

    pub(crate) fn refusals(&self) -> MutexGuard<'_, Vec<Refusal>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Every email that was posted.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// As `posthaste verify --ledger` reads it.
    pub(crate) fn text(&self) -> String {
        let entries = self.lock();
        let ids = entries.iter().filter_map(|entry| entry.id);
        ids.map(|id| format!("{id}\n")).collect()
    }
}
