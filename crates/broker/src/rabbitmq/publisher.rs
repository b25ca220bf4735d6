//! Publishing, with a definite answer for every message.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lapin::Error;
use posthaste_core::port::Handed;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use super::batch::Batch;
use super::channel_pool::ChannelPool;
use super::connection::{Ended, Events, Link, News, SETUP_DEADLINE, Service, Stop, no_answer};
use super::health::{Health, Role};
use super::message::Message;
use super::options::{Existing, RabbitMqOptions};
use super::topology::{QueueSpec, declare_all};

/// How many messages may be unconfirmed at a time, over all callers.
const WINDOW: usize = 2000;

/// How many of them one caller may have.
const LARGEST_CHUNK: usize = 500;

/// How many bytes one caller sends before it waits for confirms. What is not sent when the
/// deadline comes is known not to be there.
const LARGEST_CHUNK_BYTES: usize = 4 << 20;

/// How often a queue that cannot be used is tried again.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(5);

/// How often it is said at most that publishing fails.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// A connection that can publish.
struct Session {
    link: Link,
    channels: ChannelPool,
    /// Whether RabbitMQ takes no messages because of an alarm.
    blocked: watch::Sender<bool>,
    /// When RabbitMQ answered a message last.
    answered_at: Mutex<Instant>,
    /// Told when the connection is not to be trusted any more.
    silent: Notify,
}

impl Session {
    fn new(link: Link) -> Self {
        Self {
            link,
            channels: ChannelPool::new(),
            blocked: watch::Sender::new(false),
            answered_at: Mutex::new(Instant::now()),
            silent: Notify::new(),
        }
    }

    fn is_blocked(&self) -> bool {
        *self.blocked.borrow()
    }

    async fn gets_blocked(&self) {
        // The sender lives as long as this.
        let _ = self.blocked.subscribe().wait_for(|blocked| *blocked).await;
    }

    /// RabbitMQ answered just now.
    fn answered(&self) {
        *self.answered_at() = Instant::now();
    }

    fn answered_at(&self) -> MutexGuard<'_, Instant> {
        self.answered_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes messages and keeps the queues in place.
pub(super) struct Publisher {
    queues: Vec<QueueSpec>,
    existing: Existing,
    deadline: Duration,
    health: Arc<Health>,
    window: Semaphore,
    session: Mutex<Option<Arc<Session>>>,
    /// Told when a message came back: one of our queues was deleted.
    came_back: Notify,
    warned_at: Mutex<Option<Instant>>,
}

impl Publisher {
    pub(super) fn new(
        options: &RabbitMqOptions,
        queues: Vec<QueueSpec>,
        health: Arc<Health>,
    ) -> Self {
        Self {
            queues,
            existing: options.existing_queues,
            deadline: options.publish_deadline,
            health,
            window: Semaphore::new(WINDOW),
            session: Mutex::default(),
            came_back: Notify::new(),
            warned_at: Mutex::default(),
        }
    }

    /// Whether nothing can be published right now.
    pub(super) fn is_away(&self) -> bool {
        self.session().as_ref().is_none_or(|of| of.is_blocked())
    }

    /// Publishes messages; the answers are in their order, and come within the deadline.
    pub(super) async fn publish(&self, messages: Vec<Message>) -> Vec<Handed> {
        let mut batch = Batch::new(messages);
        let session = self.session().clone().filter(|of| !of.is_blocked());
        let Some(session) = session else {
            return batch.answers();
        };
        let began = Instant::now();
        let publishing = self.publish_all(&session, &mut batch);
        let in_time = tokio::select! {
            in_time = timeout(self.deadline, publishing) => in_time.is_ok(),
            () = session.gets_blocked() => true,
        };
        if batch.catch_up() {
            session.answered();
        }
        if !in_time && *session.answered_at() < began {
            session.silent.notify_one();
        }
        self.look_after_returned(&batch);
        batch.answers()
    }

    /// Publishes in the order of the messages, a part of them at a time, until all are confirmed
    /// or this is given up.
    async fn publish_all(&self, session: &Session, batch: &mut Batch) {
        let mut rest = self.usable(session, batch).into_iter().peekable();
        while rest.peek().is_some() {
            let mut chunk_bytes = 0;
            let chunk = std::iter::from_fn(|| {
                let next = rest.next_if(|_| chunk_bytes < LARGEST_CHUNK_BYTES)?;
                chunk_bytes += batch.messages()[next].body.len();
                Some(next)
            });
            let chunk: Vec<_> = chunk.take(LARGEST_CHUNK).collect();
            if let Err(error) = self.publish_chunk(session, batch, &chunk).await {
                self.warn(&error);
                return;
            }
        }
    }

    /// The messages that can be sent, by their index.
    fn usable(&self, session: &Session, batch: &mut Batch) -> Vec<usize> {
        let in_trouble = self.health.queues_in_trouble(Role::Publisher);
        let frame_bytes = session.link.connection.configuration().frame_max();
        let mut usable = Vec::with_capacity(batch.messages().len());
        for index in 0..batch.messages().len() {
            let message = &batch.messages()[index];
            if in_trouble.contains(message.queue.as_str()) {
                batch.refuse(index);
            } else if message.fits(frame_bytes) {
                usable.push(index);
            } else {
                let (queue, id) = (&message.queue, &message.id);
                tracing::warn!(%queue, %id, frame_bytes, "the headers of a message are too large");
                batch.refuse(index);
            }
        }
        usable
    }

    /// Says why, but not for each of thousands of messages.
    fn warn(&self, error: &Error) {
        let mut warned_at = self
            .warned_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if warned_at.is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
            *warned_at = Some(Instant::now());
            tracing::warn!(%error, "RabbitMQ does not take messages; the work waits in the store");
        }
    }

    async fn publish_chunk(
        &self,
        session: &Session,
        batch: &mut Batch,
        chunk: &[usize],
    ) -> Result<(), Error> {
        // It is never closed; and if so, nothing would be published any more.
        let Ok(_permits) = self.window.acquire_many(chunk.len() as u32).await else {
            return Ok(());
        };
        let lease = session.channels.take(&session.link.connection).await?;
        batch.send(&lease.channel, chunk).await?;
        batch.settle(|| session.answered()).await?;
        lease.all_confirmed();
        Ok(())
    }

    /// Counts what came back. If a queue of ours is gone, it is to be declared again; that a
    /// queue of others is gone is their affair.
    fn look_after_returned(&self, batch: &Batch) {
        self.health.count_returned(batch.returned());
        let is_ours = |queue: &str| self.queues.iter().any(|spec| spec.name == queue);
        if batch.missing_queues().any(is_ours) {
            self.came_back.notify_one();
        }
    }

    fn session(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn declare(&self, link: &Link) -> Result<(), String> {
        let declaring = declare_all(
            &link.connection,
            &self.queues,
            self.existing,
            &self.health,
            Role::Publisher,
        );
        match timeout(SETUP_DEADLINE, declaring).await {
            Ok(declared) => declared.map_err(|error| error.to_string()),
            Err(_) => Err(no_answer()),
        }
    }

    /// Listens to the connection until it is lost.
    async fn listen(&self, session: &Session, events: &mut Events) -> String {
        loop {
            match events.next().await {
                News::Blocked(reason) => {
                    // First the reason: whoever is refused may ask for it at once.
                    self.health.blocked(Some(reason));
                    session.blocked.send_replace(true);
                }
                News::Unblocked => {
                    session.blocked.send_replace(false);
                    self.health.blocked(None);
                }
                News::Lost(why) => return why,
            }
        }
    }

    /// Declares queues again when one was deleted or was in trouble, until the connection fails.
    async fn keep_queues(&self, session: &Session) -> String {
        loop {
            tokio::select! {
                () = self.came_back.notified() => {}
                () = tokio::time::sleep(TROUBLE_INTERVAL) => {
                    if self.health.queues_in_trouble(Role::Publisher).is_empty() {
                        continue;
                    }
                }
            }
            if session.is_blocked() {
                continue;
            }
            if let Err(why) = self.declare(&session.link).await {
                return why;
            }
        }
    }
}

impl Service for Publisher {
    const ROLE: Role = Role::Publisher;

    async fn serve(&self, link: Link, mut stop: Stop) -> Ended {
        let mut events = link.events();
        let declared = tokio::select! {
            () = stop.wanted() => return Ended::Stopped,
            why = events.lost() => Err(why),
            declared = self.declare(&link) => declared,
        };
        if let Err(why) = declared {
            return Ended::Lost(why);
        }
        let session = Arc::new(Session::new(link));
        *self.session() = Some(session.clone());
        self.health.up(Role::Publisher);
        let ended = tokio::select! {
            () = stop.wanted() => Ended::Stopped,
            why = self.listen(&session, &mut events) => Ended::Lost(why),
            why = self.keep_queues(&session) => Ended::Lost(why),
            () = session.silent.notified() => Ended::Lost("messages are not confirmed".into()),
        };
        if let Ended::Lost(why) = &ended {
            // First the reason, here too.
            self.health.away(Role::Publisher, why.clone());
        }
        *self.session() = None;
        session.link.close().await;
        ended
    }
}
