//! Emails whose callers wait for the first attempt.
//!
//! They are accepted with that attempt already begun, in one commit: whatever happens then, the
//! email is there, and no one else sends it at the same time. The attempt is not counted.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Opened, Opener, Started, StoreError};
use posthaste_core::status::{DeadReason, Status};
use tokio::time::Instant;

use super::{EmailRequest, FieldError, Intake, Refused, Submitter, Taken};
use crate::sender::Sender;
use crate::sender::inline::{InlineAttempt, Room, Waited};

/// How often a caller who comes second looks for what became of the first one's attempt.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What became of an email that was to be sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its id.
    pub id: EmailId,
    /// Its key.
    pub message_key: String,
    /// Whether the same was accepted before.
    pub is_replayed: bool,
    /// Where it is in its life. `sending`: the server has not answered yet.
    pub status: Status,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// Why it was given up.
    pub dead_reason: Option<DeadReason>,
    /// What went wrong.
    pub last_error: Option<String>,
}

impl Delivered {
    fn new(id: EmailId, message_key: String, status: Status) -> Self {
        Self {
            id,
            message_key,
            is_replayed: false,
            status,
            next_attempt_at: None,
            dead_reason: None,
            last_error: None,
        }
    }

    fn of(id: EmailId, message_key: String, state: State) -> Self {
        let waits = state.status != Status::Sending;
        Self {
            next_attempt_at: state.next_attempt_at.filter(|_| waits),
            dead_reason: state.dead_reason,
            last_error: state.last_error,
            ..Self::new(id, message_key, state.status)
        }
    }
}

/// An email that was accepted.
enum Opening {
    /// Its first attempt has begun.
    Started(FirstAttempt),
    /// The same was accepted before.
    Replayed { id: EmailId, message_key: String },
    /// It waits for its turn, and all is said.
    Told(Delivered),
}

/// The first attempt of an email, under way.
pub struct FirstAttempt {
    id: EmailId,
    message_key: String,
    attempt: InlineAttempt,
}

/// Room for the first attempt of an email that its caller keeps.
pub struct Reserved {
    sender: Arc<Sender>,
    room: Room,
    asked: Instant,
}

impl Reserved {
    /// Who makes the attempt.
    #[must_use]
    pub fn worker(&self) -> &str {
        self.sender.worker()
    }

    /// How long the email is held.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.sender.lease()
    }

    /// Makes the attempt, which began in a transaction that has committed since. If it has not,
    /// nothing is sent: the gate finds no email.
    #[must_use]
    pub fn send(self, started: Started, message_key: String) -> FirstAttempt {
        let id = started.lease.id;
        let attempt = self
            .sender
            .send_inline(Box::new(started), self.asked, self.room);
        FirstAttempt {
            id,
            message_key,
            attempt,
        }
    }
}

impl Intake {
    /// Sends what callers wait for by this sender. Without one, it waits as any other email.
    #[must_use]
    pub fn sending_by(mut self, sender: Option<Arc<Sender>>) -> Self {
        self.sender = sender;
        self
    }

    /// Takes an email in and sends it at once, in bounded time. If that fails, or there is no room
    /// for it, it waits as any other.
    ///
    /// # Errors
    ///
    /// If it is not valid or cannot be kept. A failure to send it is none.
    pub async fn deliver(
        self: &Arc<Self>,
        submitter: &Submitter,
        request: EmailRequest,
    ) -> Result<Delivered, Refused> {
        match self.open(submitter, request).await? {
            Opening::Started(attempt) => {
                let (id, key) = (attempt.id, attempt.message_key.clone());
                match self.wait_for(attempt).await? {
                    Some(delivered) => Ok(delivered),
                    // It was there: someone else sent it, and it was removed.
                    None => Ok(Delivered::new(id, key, Status::Sent)),
                }
            }
            Opening::Replayed { id, message_key } => self.replayed(id, message_key).await,
            Opening::Told(delivered) => Ok(delivered),
        }
    }

    /// Waits for an attempt to end, in bounded time. `None`: there is no such email, so nothing was
    /// sent.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub async fn wait_for(&self, attempt: FirstAttempt) -> Result<Option<Delivered>, Refused> {
        let FirstAttempt {
            id,
            message_key,
            attempt,
        } = attempt;
        Ok(Some(match attempt.wait().await {
            Waited::Over(state) => Delivered::of(id, message_key, *state),
            Waited::UnderWay => Delivered::new(id, message_key, Status::Sending),
            Waited::HandedBack => return self.look_up(id, message_key).await,
        }))
    }

    /// Room for the first attempt of an email that the caller puts into a transaction of its own;
    /// `None` if there is none, and it had better wait.
    #[must_use]
    pub fn reserve(&self) -> Option<Reserved> {
        let sender = Arc::clone(self.sender.as_ref()?);
        let room = sender.room_for_inline()?;
        Some(Reserved {
            sender,
            room,
            asked: Instant::now(),
        })
    }

    /// The same for a caller who does not wait for the attempt, only for the email to be durable.
    ///
    /// # Errors
    ///
    /// If it is not valid or cannot be kept.
    pub async fn deliver_detached(
        self: &Arc<Self>,
        submitter: &Submitter,
        request: EmailRequest,
    ) -> Result<EmailId, Refused> {
        Ok(match self.open(submitter, request).await? {
            Opening::Started(attempt) => attempt.id,
            Opening::Replayed { id, .. } => id,
            Opening::Told(delivered) => delivered.id,
        })
    }

    /// Accepts an email and lets its first attempt begin, if there is room for one.
    async fn open(
        self: &Arc<Self>,
        submitter: &Submitter,
        request: EmailRequest,
    ) -> Result<Opening, Refused> {
        let now = self.store.now();
        let checked = self.check(submitter, vec![request], now).await.pop();
        let email = match checked.ok_or_else(closed)? {
            Ok(email) => email,
            Err(rejected) => {
                let taken = rejected.answer(&submitter.owner, &self.store).await?;
                return self.describe(taken).await;
            }
        };
        if email.send_at.is_some() {
            let message = "cannot be in the future if the email is to be sent at once; leave it \
                           out, or have the email queued";
            return Err(Refused::Invalid(vec![FieldError {
                field: "send_at".into(),
                message: message.into(),
            }]));
        }
        // A caller that hangs up must not keep the rest from being done.
        let intake = Arc::clone(self);
        let opening = tokio::spawn(async move {
            let sender = intake.sender.as_ref();
            match sender.and_then(|sender| Some((sender, sender.room_for_inline()?))) {
                Some((sender, room)) => intake.begin(sender, room, Box::new(email)).await,
                None => intake.queue(email, now).await,
            }
        });
        opening.await.unwrap_or_else(|_| Err(closed().into()))
    }

    async fn begin(
        &self,
        sender: &Arc<Sender>,
        room: Room,
        email: Box<NewEmail>,
    ) -> Result<Opening, Refused> {
        let (id, message_key) = (email.id, email.message_key.clone());
        let asked = Instant::now();
        let started = match self.open_by(sender, Opener::Caller, email).await? {
            Opened::Started(started) => started,
            Opened::Replayed(id, _) => return Ok(Opening::Replayed { id, message_key }),
            Opened::KeyConflict(id) => return Err(Refused::KeyConflict(id)),
        };
        Ok(Opening::Started(FirstAttempt {
            id,
            message_key,
            attempt: sender.send_inline(started, asked, room),
        }))
    }

    /// Takes it in to be sent when its turn comes.
    async fn queue(&self, email: NewEmail, now: Timestamp) -> Result<Opening, Refused> {
        let taken = self.keep(vec![email], now).await.pop();
        let taken = taken.unwrap_or_else(|| Err(closed().into()))?;
        self.describe(taken).await
    }

    async fn describe(&self, taken: Taken) -> Result<Opening, Refused> {
        match taken {
            Taken::Accepted { id, message_key } => {
                let known = self.look_up(id, message_key.clone()).await?;
                let gone = || Delivered::new(id, message_key, Status::Sent);
                Ok(Opening::Told(known.unwrap_or_else(gone)))
            }
            Taken::Replayed {
                id, message_key, ..
            } => Ok(Opening::Replayed { id, message_key }),
        }
    }

    /// The same was accepted before. If its first caller still waits, this one waits along.
    async fn replayed(&self, id: EmailId, message_key: String) -> Result<Delivered, Refused> {
        let patience = self.sender.as_ref().map(|sender| sender.patience());
        let since = Instant::now();
        loop {
            let known = self.look_up(id, message_key.clone()).await?;
            // One that is gone was sent, and removed at once.
            let sent = || Delivered::new(id, message_key.clone(), Status::Sent);
            let delivered = known.unwrap_or_else(sent);
            let is_over = patience.is_none_or(|patience| since.elapsed() >= patience);
            if delivered.status != Status::Sending || is_over {
                return Ok(Delivered {
                    is_replayed: true,
                    ..delivered
                });
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Where it stands; `None` if it is not there.
    async fn look_up(
        &self,
        id: EmailId,
        message_key: String,
    ) -> Result<Option<Delivered>, Refused> {
        let found = self.store.find(id).await?;
        Ok(found.map(|record| Delivered::of(id, message_key, record.state)))
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the intake is closed".into())
}
