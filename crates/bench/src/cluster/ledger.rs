//! What the clients saw: the only witness that does not belong to the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use uuid::Uuid;

/// An answer that was neither an acceptance nor expected.
pub(super) struct Refusal {
    pub(super) at: Instant,
    pub(super) status: u16,
    /// When, where and what, for people.
    pub(super) what: String,
}

/// The ids that were given for the keys, and everything that went wrong.
pub(super) struct Ledger {
    run: String,
    ids: Vec<OnceLock<Uuid>>,
    accepted: AtomicU64,
    /// Answers 200: an earlier request with the same key had been committed.
    replayed: AtomicU64,
    /// Requests without an answer.
    unanswered: AtomicU64,
    refusals: Mutex<Vec<Refusal>>,
}

impl Ledger {
    pub(super) fn new(run: &str, emails: usize) -> Self {
        Self {
            run: run.to_owned(),
            ids: (0..emails).map(|_| OnceLock::new()).collect(),
            accepted: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            refusals: Mutex::default(),
        }
    }

    /// The message key of an email.
    pub(super) fn key(&self, number: usize) -> String {
        format!("{}-{number}", self.run)
    }

    pub(super) fn accept(&self, number: usize, id: Uuid, is_replay: bool) -> anyhow::Result<()> {
        ensure!(
            *self.ids[number].get_or_init(|| id) == id,
            "key {} was given two ids",
            self.key(number)
        );
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.replayed
            .fetch_add(u64::from(is_replay), Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn no_answer(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        self.refusals().push(refusal);
    }

    pub(super) fn refusals(&self) -> MutexGuard<'_, Vec<Refusal>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Every key and id that was accepted.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, Uuid)> {
        let ids = self.ids.iter().enumerate();
        ids.filter_map(|(number, id)| Some((self.key(number), *id.get()?)))
    }

    /// As `posthaste verify --ledger` reads it.
    pub(super) fn text(&self) -> String {
        self.entries().map(|(_, id)| format!("{id}\n")).collect()
    }
}
