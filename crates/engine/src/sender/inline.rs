//! First attempts that callers wait for, as they hand their emails in.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::lifecycle::State;
use posthaste_core::port::Started;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Sender;

/// Beyond its patience a caller waits this long for the end to be recorded.
const FOR_THE_RECORD: Duration = Duration::from_secs(1);

/// Room for one attempt. Draining waits for whoever has it.
pub(crate) struct Room {
    _permit: OwnedSemaphorePermit,
    _token: TaskTrackerToken,
}

impl Room {
    pub(super) const fn new(permit: OwnedSemaphorePermit, token: TaskTrackerToken) -> Self {
        Self {
            _permit: permit,
            _token: token,
        }
    }
}

/// How the wait for an attempt ended.
pub(crate) enum Waited {
    /// The attempt is over, and this is the email's state.
    Over(Box<State>),
    /// The email was handed back, or someone else took over.
    HandedBack,
    /// The server has it all and has not answered yet. The attempt goes on without the caller.
    UnderWay,
}

impl Sender {
    /// Its name in leases and records.
    pub(crate) fn worker(&self) -> &str {
        &self.config.worker
    }

    /// How long an email is held without renewal.
    pub(crate) fn lease(&self) -> Duration {
        self.config.lease
    }

    /// How long a caller waits.
    pub(crate) fn patience(&self) -> Duration {
        self.config.patience
    }

    /// Room for an attempt, unless as many are under way as there may be, or there is no time for
    /// one any more. Then the email is better off waiting.
    pub(crate) fn room_for_inline(&self) -> Option<Room> {
        let token = self.time_for_one()?;
        let permit = Arc::clone(&self.inline_permits).try_acquire_owned().ok()?;
        Some(Room::new(permit, token))
    }

    /// Draining waits for whoever has the token; there is none when it is too late for an attempt.
    pub(super) fn time_for_one(&self) -> Option<TaskTrackerToken> {
        let token = self.tasks.token();
        (!self.tasks.is_closed()).then_some(token)
    }

    /// Makes an attempt that began in the store when it was asked at `asked`. It is made to its
    /// end, whether the caller stays or goes.
    pub(crate) fn send_inline(
        self: &Arc<Self>,
        started: Box<Started>,
        asked: Instant,
        room: Room,
    ) -> InlineAttempt {
        let held = self.leases.hold(started.lease, asked);
        let (sender, patience) = (Arc::clone(self), self.config.patience);
        let attempt = self.tasks.spawn(Box::pin(async move {
            let state = sender.attempt(started, held, Some(patience), false).await;
            drop(room);
            state
        }));
        InlineAttempt { attempt, patience }
    }
}

/// An attempt that a caller may wait for.
pub(crate) struct InlineAttempt {
    attempt: JoinHandle<Option<State>>,
    patience: Duration,
}

impl InlineAttempt {
    /// Waits for its end, but not for ever.
    pub(crate) async fn wait(self) -> Waited {
        match tokio::time::timeout(self.patience.saturating_add(FOR_THE_RECORD), self.attempt).await
        {
            Ok(Ok(Some(state))) => Waited::Over(Box::new(state)),
            Ok(_) => Waited::HandedBack,
            Err(_) => Waited::UnderWay,
        }
    }
}
