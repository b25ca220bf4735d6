//! Counting: connections, replies, accepted messages, and above all the copies of each
//! message that reached each recipient.
//!
//! A message is entered before its reply is written, so whoever has seen the reply (or
//! [`Ledger::wait_for`] resolve) finds it here.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::header::without_brackets;

/// Keeps a growing map from stopping everybody while it moves.
const SHARDS: usize = 16;

/// Everything the sink has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Connections accepted, including those refused at once.
    pub connections: u64,
    /// Connections open right now.
    pub open_connections: u64,
    /// Messages accepted: one for each final dot, however many recipients.
    pub messages: u64,
    /// Accepted messages without a Message-ID; they are missing from `copies`.
    pub messages_without_id: u64,
    /// Bytes of all accepted messages, dots unstuffed.
    pub message_bytes: u64,
    /// Replies by their first digit.
    pub replies: ReplyTotals,
    /// Accepted copies, sorted by Message-ID and recipient.
    pub copies: Vec<CopyCount>,
}

/// Replies by their first digit. Nonsense is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyTotals {
    /// Success.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// Go on (354, 334).
    #[serde(rename = "3xx")]
    pub intermediate: u64,
    /// Try again later.
    #[serde(rename = "4xx")]
    pub transient: u64,
    /// Never.
    #[serde(rename = "5xx")]
    pub permanent: u64,
}

/// How many copies of one message one recipient has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CopyCount {
    /// The Message-ID without angle brackets.
    pub message_id: String,
    /// The recipient's address in lower case.
    pub recipient: String,
    /// Accepted copies.
    pub copies: u64,
}

/// An accepted message that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The envelope's sender; empty for the null sender.
    pub from: String,
    /// The accepted recipients as the client wrote them.
    pub recipients: Vec<String>,
    /// The message with its dots unstuffed, byte for byte.
    pub bytes: Vec<u8>,
    /// The Message-ID without angle brackets.
    pub message_id: Option<String>,
    /// The client's address.
    pub peer: SocketAddr,
    /// Whether it came over TLS.
    pub tls: bool,
    /// The user, if the client authenticated itself.
    pub user: Option<String>,
    /// When its last byte was there, before any wait that its recipients ask for.
    pub arrived_at: Instant,
}

/// A message at the moment it is accepted.
pub(crate) struct Arrival<'a> {
    pub(crate) message_id: Option<&'a str>,
    pub(crate) recipients: &'a [String],
    pub(crate) size_bytes: usize,
}

/// Maps "Message-ID NUL recipient" to its copies: one allocation for each.
type Shard = Mutex<HashMap<Box<str>, u64>>;

#[derive(Default)]
pub(crate) struct Ledger {
    connections: AtomicU64,
    open_connections: AtomicU64,
    messages_without_id: AtomicU64,
    message_bytes: AtomicU64,
    /// Replies 2xx, 3xx, 4xx, 5xx.
    replies: [AtomicU64; 4],
    copies: [Shard; SHARDS],
    shard_choice: RandomState,
    kept: Mutex<Vec<Arc<ReceivedMessage>>>,
    /// The number of accepted messages, which [`Ledger::wait_for`] watches.
    accepted: watch::Sender<u64>,
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenConnection<'a>(&'a AtomicU64);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ledger {
    pub(crate) fn connection_opened(&self) -> OpenConnection<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.open_connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(&self.open_connections)
    }

    pub(crate) fn count_reply(&self, code: u16) {
        let class = usize::from(code / 100);
        if let Some(counter) = class.checked_sub(2).and_then(|at| self.replies.get(at)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Enters an accepted message, and keeps it if it is given.
    pub(crate) fn accept(&self, arrival: &Arrival<'_>, kept: Option<ReceivedMessage>) {
        match arrival.message_id {
            Some(id) => {
                for recipient in arrival.recipients {
                    let key = copy_key(id, recipient);
                    let mut shard = self
                        .shard(&key)
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    *shard.entry(key).or_default() += 1;
                }
            }
            None => {
                self.messages_without_id.fetch_add(1, Ordering::Relaxed);
            }
        }
        let size_bytes = u64::try_from(arrival.size_bytes).unwrap_or(u64::MAX);
        self.message_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        if let Some(message) = kept {
            let mut messages = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push(Arc::new(message));
        }
        self.accepted.send_modify(|count| *count += 1);
    }

    pub(crate) fn accepted(&self) -> u64 {
        *self.accepted.borrow()
    }

    pub(crate) async fn wait_for(&self, count: u64) {
        let mut accepted = self.accepted.subscribe();
        // It fails only without a sender, and this ledger is the sender.
        let _ = accepted.wait_for(|accepted| *accepted >= count).await;
    }

    pub(crate) fn copies(&self, message_id: &str, recipient: &str) -> u64 {
        let key = copy_key(without_brackets(message_id), recipient);
        let shard = self
            .shard(&key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(&key).copied().unwrap_or(0)
    }

    /// All copies counted at least `minimum` times, sorted.
    pub(crate) fn copies_from(&self, minimum: u64) -> Vec<CopyCount> {
        let mut found = Vec::new();
        for shard in &self.copies {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(
                shard
                    .iter()
                    .filter(|&(_, &copies)| copies >= minimum)
                    .map(|(key, &copies)| copy_count(key, copies)),
            );
        }
        found.sort_unstable();
        found
    }

    pub(crate) fn messages(&self) -> Vec<Arc<ReceivedMessage>> {
        let messages = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        messages.clone()
    }

    pub(crate) fn report(&self) -> Report {
        let [success, intermediate, transient, permanent] = &self.replies;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            connections: read(&self.connections),
            open_connections: read(&self.open_connections),
            messages: self.accepted(),
            messages_without_id: read(&self.messages_without_id),
            message_bytes: read(&self.message_bytes),
            replies: ReplyTotals {
                success: read(success),
                intermediate: read(intermediate),
                transient: read(transient),
                permanent: read(permanent),
            },
            copies: self.copies_from(1),
        }
    }

    fn shard(&self, key: &str) -> &Shard {
        let hash = self.shard_choice.hash_one(key);
        // The remainder is below 16 and fits any integer.
        &self.copies[(hash % SHARDS as u64) as usize]
    }
}

/// An address contains no NUL, so the last one divides the key.
fn copy_key(message_id: &str, recipient: &str) -> Box<str> {
    let mut key = String::with_capacity(message_id.len() + 1 + recipient.len());
    key.push_str(message_id);
    key.push('\0');
    let recipient_start = key.len();
    key.push_str(recipient);
    key[recipient_start..].make_ascii_lowercase();
    key.into_boxed_str()
}

fn copy_count(key: &str, copies: u64) -> CopyCount {
    let (message_id, recipient) = key.rsplit_once('\0').unwrap_or((key, ""));
    CopyCount {
        message_id: message_id.to_owned(),
        recipient: recipient.to_owned(),
        copies,
    }
}
