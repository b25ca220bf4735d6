//! The numbers that every page shows, read once for all who look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_core::Timestamp;
use posthaste_core::port::{MessageStatistics, Statistics, StoreResult};
use posthaste_core::status::Status;
use posthaste_engine::operator::TransportView;
use tokio::sync::Mutex;

use crate::app::App;

/// Numbers are read again after this time.
const FRESH: Duration = Duration::from_millis(800);

/// The numbers at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) emails: Statistics,
    pub(crate) messages: MessageStatistics,
    /// How the transports do.
    pub(crate) ways: Vec<TransportView>,
    pub(crate) at: Timestamp,
}

impl Numbers {
    /// Before anything was read.
    pub(super) fn none() -> Self {
        Self {
            emails: Statistics::default(),
            messages: MessageStatistics::default(),
            ways: Vec::new(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// How many emails are in this state.
    pub(crate) fn count(&self, status: Status) -> u64 {
        self.emails.by_status.get(&status).copied().unwrap_or(0)
    }

    /// How many wait for another attempt.
    pub(crate) fn in_retry(&self) -> u64 {
        self.count(Status::Failed) + self.count(Status::RetryQueued)
    }

    /// How many of these wait for a way out.
    pub(crate) fn parked(&self) -> u64 {
        self.ways.iter().map(|view| view.waiting).sum()
    }

    /// How many wait for their first, or are being sent.
    pub(crate) fn waiting(&self) -> u64 {
        self.count(Status::Pending) + self.count(Status::Sending)
    }

    /// Whether the same is to be seen, whatever the time.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        self.emails == other.emails
            && self.messages == other.messages
            && self.ways.len() == other.ways.len()
            && self
                .ways
                .iter()
                .zip(&other.ways)
                .all(|(one, other)| alike(one, other))
    }
}

/// Whether a transport does as it did. What moves with every email, and by time alone, does not
/// matter: pages follow emails anyway.
fn alike(one: &TransportView, other: &TransportView) -> bool {
    one.condition == other.condition
        && one.way == other.way
        && one.domains == other.domains
        && one.waiting == other.waiting
        && one.learned_rate.is_some() == other.learned_rate.is_some()
}

/// Reads the numbers at most about once a second, however many look at them.
#[derive(Default)]
pub(crate) struct Pulse {
    last: Mutex<Option<(Instant, Arc<Numbers>)>>,
}

impl Pulse {
    /// The numbers, at most a moment old.
    pub(crate) async fn numbers(&self, app: &App) -> StoreResult<Arc<Numbers>> {
        let mut last = self.last.lock().await;
        if let Some((read_at, numbers)) = &*last
            && read_at.elapsed() < FRESH
        {
            return Ok(Arc::clone(numbers));
        }
        let (emails, messages, ways) = tokio::try_join!(
            app.operator.statistics(),
            app.message_desk.statistics(),
            app.operator.transports()
        )?;
        let numbers = Arc::new(Numbers {
            emails,
            messages,
            ways,
            at: app.operator.now(),
        });
        *last = Some((Instant::now(), Arc::clone(&numbers)));
        Ok(numbers)
    }

    /// Forgets them: something was just changed, and whoever did so wants to see it.
    pub(crate) async fn refresh(&self) {
        *self.last.lock().await = None;
    }
}
