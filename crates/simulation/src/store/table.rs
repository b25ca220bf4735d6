//! The rows, and how emails are found among them. The searches are those of the databases.

use std::collections::{BTreeMap, HashMap};

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{DeadNotice, Pick};
use posthaste_core::status::{Priority, Status};
use posthaste_core::way::{Way, WayName};
use tokio::time::Instant;

use super::row::Row;

/// Everything that is kept.
#[derive(Default)]
pub(crate) struct Tables {
    /// In the order in which they were accepted; `None` for one that vanished.
    rows: Vec<Option<Row>>,
    places: HashMap<EmailId, usize>,
    keys: HashMap<String, EmailId>,
    /// How many emails are in each state, counted step by step.
    pub(crate) counters: BTreeMap<Status, i64>,
    /// How many were accepted.
    pub(crate) accepted: u64,
    /// News of deaths: what is told, and until when someone is at it; `None` once it was told.
    pub(crate) notices: Vec<Option<(DeadNotice, Option<Timestamp>)>>,
    pub(super) ways: BTreeMap<WayName, Way>,
    pub(super) senders: BTreeMap<String, Timestamp>,
    /// What a process was told is durable and is not: for a planted bug.
    pub(super) unsynced: Vec<(String, EmailId, Instant)>,
}

impl Tables {
    pub(super) fn insert(&mut self, email: NewEmail, state: State, now: Timestamp) {
        let (id, key) = (email.id, email.message_key.clone());
        self.places.insert(id, self.rows.len());
        self.keys.insert(key, id);
        *self.counters.entry(state.status).or_default() += 1;
        self.accepted += 1;
        self.rows.push(Some(Row::new(email, state, now)));
    }

    /// Every email, oldest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flatten()
    }

    pub(crate) fn row(&self, id: EmailId) -> Option<&Row> {
        self.rows.get(*self.places.get(&id)?)?.as_ref()
    }

    pub(super) fn row_mut(&mut self, id: EmailId) -> Option<&mut Row> {
        self.rows.get_mut(*self.places.get(&id)?)?.as_mut()
    }

    /// In which place it was accepted, for a stable order.
    pub(super) fn place(&self, id: EmailId) -> usize {
        self.places.get(&id).copied().unwrap_or(usize::MAX)
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<&Row> {
        self.row(*self.keys.get(key)?)
    }

    /// Its name in the log.
    pub(super) fn name(&self, id: EmailId) -> String {
        let name = self.row(id).map(|row| row.name().to_owned());
        name.unwrap_or_else(|| "nothing".to_owned())
    }

    /// Emails that are found by this, what goes first first.
    fn find(&self, most: usize, wanted: impl Fn(&State) -> bool) -> Vec<EmailId> {
        let mut found: Vec<&Row> = self.rows().filter(|row| wanted(&row.state)).collect();
        found.sort_by_key(|row| (place_of(row.email.priority), row.state.next_attempt_at));
        found
            .into_iter()
            .take(most)
            .map(|row| row.email.id)
            .collect()
    }

    /// What a scheduler may claim.
    pub(super) fn due(&self, now: Timestamp, most: usize) -> Vec<EmailId> {
        self.find(most, |state| match state.status {
            _ if waited_too_long(state, now) => true,
            Status::Failed => state.waiting_for.is_none() && state.is_due(now),
            Status::Pending => state.last_queued_at.is_none() && state.is_due(now),
            _ => false,
        })
    }

    /// When a scheduler has something to do.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = |row: &Row| {
            let state = &row.state;
            let due = match state.status {
                Status::Failed if state.waiting_for.is_none() => state.next_attempt_at,
                Status::Pending if state.last_queued_at.is_none() => state.next_attempt_at,
                _ => None,
            };
            [due, state.waits_until].into_iter().flatten().min()
        };
        self.rows().filter_map(due).min()
    }

    /// What waits without a ticket.
    pub(super) fn unticketed(
        &self,
        now: Timestamp,
        before: Timestamp,
        most: usize,
    ) -> Vec<EmailId> {
        self.find(most, |state| {
            let was_due = state.next_attempt_at.is_some_and(|at| at < before);
            let was_queued = state.last_queued_at.is_some_and(|at| at < before);
            let waits = state.waiting_for.is_some();
            match (state.status, state.last_queued_at) {
                _ if waited_too_long(state, now) => true,
                (Status::Pending, None) => state.is_due(now),
                (Status::Pending, Some(_)) => !waits && was_due && was_queued,
                (Status::RetryQueued, queued) => {
                    let is_free = state.locked_until.is_none();
                    !waits && is_free && was_due && (was_queued || queued.is_none())
                }
                (Status::Failed, _) => !waits && state.is_due(before),
                _ => false,
            }
        })
    }

    /// What waits for exactly these ways and may be tried.
    pub(super) fn parked(&self, ways: &str, now: Timestamp, pick: Pick) -> Vec<EmailId> {
        let wanted =
            |state: &State| state.waiting_for.as_deref() == Some(ways) && state.is_due(now);
        match pick {
            Pick::UpTo(most) => self.find(most, wanted),
            Pick::Longest => {
                let waiting = self.rows().filter(|row| wanted(&row.state));
                let longest = waiting.min_by_key(|row| row.state.next_attempt_at);
                longest.map(|row| row.email.id).into_iter().collect()
            }
        }
    }

    /// Whose lease has run out.
    pub(super) fn expired(&self, now: Timestamp, most: usize) -> Vec<EmailId> {
        self.find(most, |state| {
            state.locked_until.is_some_and(|until| until <= now)
        })
    }

    /// What a process was told is durable and is not yet: it vanishes with the process.
    pub(super) fn forget_unsynced(&mut self, process: &str) {
        let now = Instant::now();
        let mut lost = Vec::new();
        self.unsynced.retain(|(of, id, until)| {
            let is_lost = of == process && *until > now;
            lost.extend(is_lost.then_some(*id));
            !is_lost
        });
        for id in lost {
            let place = self.place(id);
            if let Some(row) = self.rows.get_mut(place).and_then(Option::take) {
                *self.counters.entry(row.state.status).or_default() -= 1;
                self.accepted -= 1;
                self.keys.remove(row.name());
                self.places.remove(&id);
            }
        }
    }
}

fn waited_too_long(state: &State, now: Timestamp) -> bool {
    state.waits_until.is_some_and(|until| until <= now)
}

const fn place_of(priority: Priority) -> u8 {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}
