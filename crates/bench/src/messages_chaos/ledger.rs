//! What the driver planned and saw: the only witness that does not belong to the system.
//!
//! How often a message fails is planned by its retry count alone, so that a copy too many is
//! handled as its first one was.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use super::options::Options;
use crate::retry_message::{RetryMessage, random_id};

/// The retries that every message gets.
pub(super) const MAX_RETRIES: u32 = 3;

/// RabbitMQ has written down an acknowledgement after this time at the latest. A message that it
/// delivers again although it was acknowledged longer than this before the crash is a copy.
const WRITTEN_DOWN: Duration = Duration::from_secs(5);

/// A failure that is handed in: which message, and how often it was put back before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandIn {
    pub(super) number: usize,
    pub(super) retry_count: u32,
}

/// The copies of one retry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copies {
    pub(super) copies: u32,
    /// Deliveries of a copy that we had before, and whose acknowledgement was lost.
    pub(super) again: u32,
    last: Instant,
}

/// All that is known about one message.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: Uuid,
    /// How many of its retries fail.
    pub(super) failures: u32,
    /// How often a failure was handed in once more, because nobody knows whether it was before.
    pub(super) uncertain: u32,
    /// The retry count of the last failure that was handed in.
    handed_in: Option<u32>,
    /// By retry count.
    pub(super) seen: BTreeMap<u32, Copies>,
}

impl Entry {
    /// A message that was seen so often, by retry count.
    #[cfg(test)]
    pub(super) fn seen_so(failures: u32, seen: &[(u32, u32)]) -> Self {
        let last = Instant::now();
        let copies = |copies| Copies {
            copies,
            again: 0,
            last,
        };
        Self {
            id: Uuid::nil(),
            failures,
            uncertain: 0,
            handed_in: None,
            seen: seen.iter().map(|(count, n)| (*count, copies(*n))).collect(),
        }
    }

    /// Whether it is to end in review.
    pub(super) const fn exhausts(&self) -> bool {
        self.failures >= MAX_RETRIES
    }

    /// The last retry that is to be seen.
    pub(super) fn last_retry(&self) -> u32 {
        (self.failures + 1).min(MAX_RETRIES)
    }

    /// Whether a failure was handed in of which nothing has come yet.
    fn waits(&self) -> bool {
        let seen = self.seen.last_key_value().map_or(0, |(count, _)| *count);
        let waiting = self.handed_in.is_none_or(|count| seen <= count);
        waiting && self.handed_in.is_none_or(|count| count < MAX_RETRIES)
    }
}

/// Every message, and what happened to it.
pub(super) struct Ledger {
    original: String,
    payload: usize,
    numbers: HashMap<Uuid, usize>,
    entries: Mutex<Vec<Entry>>,
    /// First failures that RabbitMQ has confirmed.
    handed_in: AtomicU64,
    /// Failures that it has not.
    open: AtomicU64,
    retries: AtomicU64,
    /// What came back that was never handed in, or not as it was.
    strange: Mutex<Vec<String>>,
}

impl Ledger {
    pub(super) fn new(options: &Options, original: &str) -> Self {
        let mut dice = StdRng::seed_from_u64(options.seed);
        let failing = options.failing.clamp(0.0, 1.0);
        let entry = |_| Entry {
            id: random_id(dice.random()),
            failures: match dice.random_bool(failing) {
                true => dice.random_range(1..=MAX_RETRIES),
                false => 0,
            },
            uncertain: 0,
            handed_in: None,
            seen: BTreeMap::new(),
        };
        let entries: Vec<Entry> = (0..options.messages).map(entry).collect();
        let numbers = entries.iter().enumerate();
        Self {
            original: original.to_owned(),
            payload: options.payload,
            numbers: numbers.map(|(number, entry)| (entry.id, number)).collect(),
            entries: Mutex::new(entries),
            handed_in: AtomicU64::new(0),
            open: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            strange: Mutex::default(),
        }
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many retries are to be seen.
    pub(super) fn expected_retries(&self) -> u64 {
        let entries = self.entries();
        entries
            .iter()
            .map(|entry| u64::from(entry.last_retry()))
            .sum()
    }

    pub(super) fn number_of(&self, id: Uuid) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    fn payload(&self, id: Uuid) -> Vec<u8> {
        let bytes = id.as_bytes().iter().cycle();
        bytes.take(self.payload.max(16)).copied().collect()
    }

    /// The bytes that are handed in, the same each time.
    pub(super) fn body(&self, hand_in: HandIn) -> (Uuid, Vec<u8>) {
        let id = self.entries()[hand_in.number].id;
        let message = RetryMessage {
            message_id: id.to_string(),
            original_payload: self.payload(id),
            original_queue: self.original.clone(),
            error_reason: format!("failed after {} retries", hand_in.retry_count),
            retry_count: hand_in.retry_count as i32,
            ..RetryMessage::default()
        };
        (id, message.to_bytes())
    }

    /// A failure is about to be handed in.
    pub(super) fn begin(&self, hand_in: HandIn) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.entries()[hand_in.number].handed_in = Some(hand_in.retry_count);
    }

    /// RabbitMQ has it.
    pub(super) fn confirm(&self, hand_in: HandIn) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        let is_first = hand_in.retry_count == 0;
        self.handed_in
            .fetch_add(u64::from(is_first), Ordering::Relaxed);
    }

    /// RabbitMQ may have it; it is handed in again.
    pub(super) fn doubt(&self, hand_in: HandIn) {
        self.entries()[hand_in.number].uncertain += 1;
    }

    /// A message is back in its queue. The answer is the failure that follows, if one does.
    /// `lost_at` is when the connection before this one was lost.
    pub(super) fn see(
        &self,
        id: Uuid,
        retry_count: u32,
        payload: &[u8],
        redelivered: bool,
        lost_at: Option<Instant>,
    ) -> Option<HandIn> {
        let Some(number) = self.number_of(id).filter(|_| payload == self.payload(id)) else {
            let size = payload.len();
            self.wonder(format!("STRANGE: {id}, retry {retry_count}, {size} octets"));
            return None;
        };
        let mut entries = self.entries();
        let entry = &mut entries[number];
        let now = Instant::now();
        if let Some(copies) = entry.seen.get_mut(&retry_count) {
            let acknowledged = |at: Instant| copies.last + WRITTEN_DOWN < at;
            match redelivered && !lost_at.is_some_and(acknowledged) {
                true => copies.again += 1,
                false => copies.copies += 1,
            }
            copies.last = now;
            return None;
        }
        let copies = Copies {
            copies: 1,
            again: 0,
            last: now,
        };
        entry.seen.insert(retry_count, copies);
        self.retries.fetch_add(1, Ordering::Relaxed);
        (retry_count <= entry.failures).then_some(HandIn {
            number,
            retry_count,
        })
    }

    /// Takes note of what should not be.
    pub(super) fn wonder(&self, what: String) {
        let mut strange = self.strange.lock().unwrap_or_else(PoisonError::into_inner);
        strange.push(what);
    }

    pub(super) fn strange(&self) -> Vec<String> {
        let strange = self.strange.lock().unwrap_or_else(PoisonError::into_inner);
        strange.clone()
    }

    /// How many messages were handed in for the first time.
    pub(super) fn handed_in(&self) -> u64 {
        self.handed_in.load(Ordering::Relaxed)
    }

    /// How many different retries were seen.
    pub(super) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// How many failures are not confirmed, and how many messages have not come back from one.
    pub(super) fn left(&self) -> (u64, u64) {
        let waiting = self.entries().iter().filter(|entry| entry.waits()).count();
        (self.open.load(Ordering::Relaxed), waiting as u64)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn ledger() -> (Ledger, Uuid, Vec<u8>) {
        let options = Line::parse_from(["x", "--messages", "1", "--failing", "1"]).options;
        let ledger = Ledger::new(&options, "original");
        let id = ledger.entries()[0].id;
        let payload = ledger.payload(id);
        (ledger, id, payload)
    }

    fn copies(ledger: &Ledger) -> (u32, u32) {
        let copies = ledger.entries()[0].seen[&1];
        (copies.copies, copies.again)
    }

    #[test]
    fn a_failure_follows_the_first_copy_only() {
        let (ledger, id, payload) = ledger();
        let follows = HandIn {
            number: 0,
            retry_count: 1,
        };
        assert_eq!(ledger.see(id, 1, &payload, false, None), Some(follows));
        assert_eq!(ledger.see(id, 1, &payload, false, None), None);
        assert_eq!(copies(&ledger), (2, 0));
    }

    #[test]
    fn what_is_delivered_again_is_no_copy_unless_it_was_acknowledged_long_before() {
        let (ledger, id, payload) = ledger();
        ledger.see(id, 1, &payload, false, None);
        let crash = Instant::now() + Duration::from_secs(1);
        ledger.see(id, 1, &payload, true, Some(crash));
        assert_eq!(copies(&ledger), (1, 1));
        let later = Instant::now() + Duration::from_secs(9);
        ledger.see(id, 1, &payload, true, Some(later));
        assert_eq!(copies(&ledger), (2, 1));
    }

    #[test]
    fn another_payload_is_strange() {
        let (ledger, id, _) = ledger();
        assert_eq!(ledger.see(id, 1, b"other", false, None), None);
        assert_eq!(ledger.strange().len(), 1);
    }
}
