//! Publishing, with a definite answer for every message.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::stream::FuturesOrdered;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Error, PublisherConfirm};
use posthaste_core::port::Published;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use super::channel_pool::ChannelPool;
use super::connection::{Ended, Events, Link, News, SETUP_DEADLINE, Service, Stop, no_answer};
use super::health::{Health, Role};
use super::options::{Existing, RabbitMqOptions};
use super::topology::{QueueSpec, all_queues, declare_all};

/// How many messages may be unconfirmed at a time, over all callers.
const WINDOW: usize = 1000;

/// How many of them one caller may have.
const LARGEST_CHUNK: usize = 500;

/// How often a queue that cannot be used is tried again.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(5);

/// How often it is said at most that publishing fails.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Persistent: survives a restart of the server.
const PERSISTENT: u8 = 2;

/// A queue and the id of a message in it.
type MessageName = (ShortString, ShortString);

/// One message on its way to a queue.
pub(super) struct Message {
    queue: ShortString,
    id: ShortString,
    body: Vec<u8>,
    properties: BasicProperties,
}

impl Message {
    pub(super) fn json(queue: &str, id: ShortString, body: Vec<u8>) -> Self {
        let properties = BasicProperties::default().with_content_type("application/json".into());
        Self::with_properties(queue, id, body, properties)
    }

    pub(super) fn with_properties(
        queue: &str,
        id: ShortString,
        body: Vec<u8>,
        properties: BasicProperties,
    ) -> Self {
        let properties = properties
            .with_delivery_mode(PERSISTENT)
            .with_message_id(id.clone());
        Self {
            queue: queue.into(),
            id,
            body,
            properties,
        }
    }

    /// Is dropped by the queue after this time, or after the longest that RabbitMQ knows.
    pub(super) fn expiring(mut self, after: Duration) -> Self {
        let milliseconds = after.as_millis().min(u128::from(u32::MAX));
        let milliseconds = milliseconds.to_string().into();
        self.properties = self.properties.with_expiration(milliseconds);
        self
    }
}

/// A connection that can publish.
struct Session {
    link: Link,
    channels: ChannelPool,
    /// Whether RabbitMQ takes no messages because of an alarm.
    blocked: watch::Sender<bool>,
    /// When a message was confirmed last.
    confirmed_at: Mutex<Instant>,
    /// Told when the connection is not to be trusted any more.
    silent: Notify,
}

impl Session {
    fn new(link: Link) -> Self {
        Self {
            link,
            channels: ChannelPool::new(),
            blocked: watch::Sender::new(false),
            confirmed_at: Mutex::new(Instant::now()),
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

    /// Waits for all confirms. The answers are whether each was confirmed, and which messages
    /// came back: those were confirmed too, because no queue was there to refuse them.
    async fn await_confirms(
        &self,
        confirms: Vec<PublisherConfirm>,
    ) -> Result<(Vec<bool>, BTreeSet<MessageName>), Error> {
        let mut confirmed = Vec::with_capacity(confirms.len());
        let mut returned = BTreeSet::new();
        for confirm in confirms {
            let confirmation = confirm.await?;
            *self.confirmed_at() = Instant::now();
            confirmed.push(confirmation.is_ack());
            returned.extend(confirmation.take_message().map(|message| name_of(&message)));
        }
        Ok((confirmed, returned))
    }

    fn confirmed_at(&self) -> MutexGuard<'_, Instant> {
        self.confirmed_at
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
    /// Told when a message came back: a queue was deleted.
    came_back: Notify,
    warned_at: Mutex<Option<Instant>>,
}

impl Publisher {
    pub(super) fn new(options: &RabbitMqOptions, health: Arc<Health>) -> Self {
        Self {
            queues: all_queues(options),
            existing: options.existing_queues,
            deadline: options.publish_deadline,
            health,
            window: Semaphore::new(WINDOW),
            session: Mutex::default(),
            came_back: Notify::new(),
            warned_at: Mutex::default(),
        }
    }

    /// Publishes messages; the answers are in their order, and come within the deadline.
    pub(super) async fn publish(&self, messages: Vec<Message>) -> Vec<Published> {
        let mut answers = vec![Published::Refused; messages.len()];
        let session = self.session().clone().filter(|of| !of.is_blocked());
        let Some(session) = session else {
            return answers;
        };
        let began = Instant::now();
        let publishing = self.publish_all(&session, &messages, &mut answers);
        let in_time = tokio::select! {
            in_time = timeout(self.deadline, publishing) => in_time.is_ok(),
            () = session.gets_blocked() => true,
        };
        if !in_time && *session.confirmed_at() < began {
            session.silent.notify_one();
        }
        answers
    }

    /// Publishes in the order of the messages, a part of them at a time. Whatever is not
    /// confirmed when this ends, or is given up, stays refused.
    async fn publish_all(
        &self,
        session: &Session,
        messages: &[Message],
        answers: &mut [Published],
    ) {
        let unusable = self.health.queues_in_trouble(Role::Publisher);
        let usable: Vec<_> = messages
            .iter()
            .zip(answers)
            .filter(|(message, _)| !unusable.contains(message.queue.as_str()))
            .collect();
        let mut rest = usable.into_iter().peekable();
        while rest.peek().is_some() {
            let chunk: Vec<_> = rest.by_ref().take(LARGEST_CHUNK).collect();
            if let Err(error) = self.publish_chunk(session, chunk).await {
                self.warn(&error);
                return;
            }
        }
    }

    /// Says why, but not for each of thousands of tickets.
    fn warn(&self, error: &Error) {
        let mut warned_at = self
            .warned_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if warned_at.is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
            *warned_at = Some(Instant::now());
            tracing::warn!(%error, "RabbitMQ does not take messages; the emails wait in the store");
        }
    }

    async fn publish_chunk<'m>(
        &self,
        session: &Session,
        mut chunk: Vec<(&'m Message, &mut Published)>,
    ) -> Result<(), Error> {
        // It is never closed; and if so, nothing would be published any more.
        let Ok(_permits) = self.window.acquire_many(chunk.len() as u32).await else {
            return Ok(());
        };
        let lease = session.channels.take(&session.link.connection).await?;
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let publish = |message: &'m Message| {
            let (queue, properties) = (message.queue.clone(), message.properties.clone());
            let body = message.body.as_slice();
            let channel = &lease.channel;
            channel.basic_publish("".into(), queue, options, body, properties)
        };
        let publishing = chunk.iter().map(|(message, _)| publish(message));
        let publishing: FuturesOrdered<_> = publishing.collect();
        let confirms: Vec<PublisherConfirm> = publishing.try_collect().await?;
        let (confirmed, returned) = session.await_confirms(confirms).await?;
        lease.all_confirmed();
        for ((message, answer), confirmed) in chunk.iter_mut().zip(confirmed) {
            let key = (message.queue.clone(), message.id.clone());
            if confirmed && !returned.contains(&key) {
                **answer = Published::Confirmed;
            }
        }
        if !returned.is_empty() {
            self.health.count_returned(returned.len());
            self.came_back.notify_one();
        }
        Ok(())
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

fn name_of(message: &BasicReturnMessage) -> MessageName {
    let id = message.properties.message_id().clone();
    (message.routing_key.clone(), id.unwrap_or_default())
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
        *self.session() = None;
        session.link.close().await;
        ended
    }
}
