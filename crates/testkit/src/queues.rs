//! RabbitMQ queues for one test, on the server that the scripts provide, and a program of
//! someone else that uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// When to give up waiting for messages.
const DEADLINE: Duration = Duration::from_secs(60);
/// How often to look.
const INTERVAL: Duration = Duration::from_millis(20);

/// Queues with names of their own, deleted when this is dropped.
pub struct Queues {
    server: String,
    prefix: String,
    queue_type: &'static str,
    has_retry_route: bool,
    connection: OnceCell<Connection>,
    channel: OnceCell<Channel>,
}

/// A message that was taken from a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its `message_id`.
    pub id: Option<String>,
    /// Its headers that are text.
    pub headers: BTreeMap<String, String>,
    /// Its `expiration`.
    pub expiration: Option<String>,
    /// Its `content_type`.
    pub content_type: Option<String>,
    /// Whether it outlives a restart of the server.
    pub is_persistent: bool,
    /// Whether somebody had it before and did not acknowledge it.
    pub is_redelivered: bool,
}

impl Message {
    /// Its body, which must be JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Queues {
    /// New names on the server at `TEST_RABBITMQ_URL`. The queues themselves are made by whoever
    /// uses them first. They are classic ones, as by default in the product.
    #[must_use]
    pub fn fresh() -> Self {
        let server = std::env::var("TEST_RABBITMQ_URL").unwrap_or_else(|_| {
            panic!(
                "TEST_RABBITMQ_URL is not set: run ./scripts/test, or start servers with \
                 `scripts/services start` and `eval \"$(scripts/services env)\"`"
            )
        });
        Self {
            server,
            prefix: format!("test.{}", uuid::Uuid::now_v7().simple()),
            queue_type: "classic",
            has_retry_route: false,
            connection: OnceCell::new(),
            channel: OnceCell::new(),
        }
    }

    /// As quorum queues.
    #[must_use]
    pub const fn quorum(mut self) -> Self {
        self.queue_type = "quorum";
        self
    }

    /// With a queue of their own for retries.
    #[must_use]
    pub const fn with_retry_route(mut self) -> Self {
        self.has_retry_route = true;
        self
    }

    /// Where RabbitMQ is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.server
    }

    /// The variables that make a process use these queues.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let retry = if self.has_retry_route {
            self.retry()
        } else {
            String::new()
        };
        vec![
            ("RABBITMQ_URL", self.server.clone()),
            ("POSTHASTE_BROKER__QUEUE_TYPE", self.queue_type.to_owned()),
            ("POSTHASTE_BROKER__SEND_QUEUE", self.send()),
            ("POSTHASTE_BROKER__RETRY_QUEUE", retry),
            ("POSTHASTE_BROKER__DEAD_QUEUE", self.dead()),
            ("POSTHASTE_BROKER__REVIEW_QUEUE", self.review()),
        ]
    }

    /// Tickets.
    #[must_use]
    pub fn send(&self) -> String {
        format!("{}.send", self.prefix)
    }

    /// Tickets of high priority.
    #[must_use]
    pub fn high(&self) -> String {
        format!("{}.high", self.send())
    }

    /// Tickets of low priority.
    #[must_use]
    pub fn low(&self) -> String {
        format!("{}.low", self.send())
    }

    /// Tickets of retries, if they have a route of their own.
    #[must_use]
    pub fn retry(&self) -> String {
        format!("{}.retry", self.prefix)
    }

    /// Notices of dead emails.
    #[must_use]
    pub fn dead(&self) -> String {
        format!("{}.dead", self.prefix)
    }

    /// What could not be read.
    #[must_use]
    pub fn review(&self) -> String {
        format!("{}.review", self.prefix)
    }

    /// Every queue that a process may have made.
    fn all(&self) -> Vec<String> {
        vec![
            self.high(),
            self.low(),
            self.send(),
            self.retry(),
            self.dead(),
            self.review(),
        ]
    }

    /// Makes a queue as a process would find it.
    pub async fn declare(&self, queue: &str) {
        let mut arguments = FieldTable::default();
        let queue_type = AMQPValue::LongString(self.queue_type.into());
        arguments.insert("x-queue-type".into(), queue_type);
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = self
            .channel()
            .await
            .queue_declare(queue.into(), options, arguments)
            .await;
        declared.expect("a queue");
    }

    /// Puts these bytes into a queue, as another program might, and waits until they are there.
    pub async fn publish(&self, queue: &str, body: &[u8]) {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let properties = BasicProperties::default();
        let publishing =
            self.channel()
                .await
                .basic_publish("".into(), queue.into(), options, body, properties);
        let confirm = publishing.await.expect("an open channel");
        let confirm = confirm.await.expect("a confirm");
        assert!(
            confirm.is_ack() && confirm.take_message().is_none(),
            "{queue} is not there"
        );
    }

    /// Takes a message for good.
    pub async fn take(&self, queue: &str) -> Option<Message> {
        let options = BasicGetOptions { no_ack: true };
        let taken = self.channel().await.basic_get(queue.into(), options).await;
        taken.expect("a queue that is there").map(message_of)
    }

    /// Takes so many messages for good, waiting for them.
    pub async fn take_many(&self, queue: &str, count: usize) -> Vec<Message> {
        let give_up = Instant::now() + DEADLINE;
        let mut messages = Vec::new();
        while messages.len() < count {
            match self.take(queue).await {
                Some(message) => messages.push(message),
                None => {
                    let found = messages.len();
                    assert!(
                        Instant::now() < give_up,
                        "{queue} has {found}, not {count}: {messages:?}"
                    );
                    sleep(INTERVAL).await;
                }
            }
        }
        messages
    }

    /// How many messages wait in a queue for a consumer; 0 if it is not there.
    pub async fn count(&self, queue: &str) -> u32 {
        self.count_if_there(queue).await.unwrap_or(0)
    }

    async fn count_if_there(&self, queue: &str) -> Option<u32> {
        // A queue that is missing costs the channel its life.
        let connection = self.connection().await;
        let channel = connection.create_channel().await.expect("a channel");
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
        let count = declared.await.ok().map(|queue| queue.message_count());
        let _ = channel.close(200, "counted".into()).await;
        count
    }

    /// Waits until a queue is there and so many messages wait in it.
    pub async fn wait_for_count(&self, queue: &str, count: u32) {
        let give_up = Instant::now() + DEADLINE;
        loop {
            let found = self.count_if_there(queue).await;
            if found == Some(count) {
                return;
            }
            assert!(
                Instant::now() < give_up,
                "{queue} has {found:?} messages, not {count}"
            );
            sleep(INTERVAL).await;
        }
    }

    /// Empties a queue and says how many messages were lost with that.
    pub async fn purge(&self, queue: &str) -> u32 {
        let purged = self
            .channel()
            .await
            .queue_purge(queue.into(), QueuePurgeOptions::default())
            .await;
        purged.expect("a queue that is there")
    }

    /// Empties all queues of tickets and says how many were lost with that.
    pub async fn purge_tickets(&self) -> u32 {
        let mut queues = vec![self.high(), self.low(), self.send()];
        queues.extend(self.has_retry_route.then(|| self.retry()));
        let mut purged = 0;
        for queue in queues {
            purged += self.purge(&queue).await;
        }
        purged
    }

    /// Deletes a queue, also under those who use it.
    pub async fn delete(&self, queue: &str) {
        let deleting = self
            .channel()
            .await
            .queue_delete(queue.into(), QueueDeleteOptions::default());
        deleting.await.expect("an open channel");
    }

    /// Deletes all queues, also under those who use them.
    pub async fn delete_all(&self) {
        delete(self.channel().await, &self.all()).await;
    }

    async fn connection(&self) -> &Connection {
        self.connection
            .get_or_init(async || connect(&self.server).await)
            .await
    }

    async fn channel(&self) -> &Channel {
        let open = async || {
            let channel = self.connection().await.create_channel().await;
            let channel = channel.expect("a channel");
            let confirming = channel.confirm_select(ConfirmSelectOptions::default());
            confirming.await.expect("confirms");
            channel
        };
        self.channel.get_or_init(open).await
    }
}

async fn connect(url: &str) -> Connection {
    Connection::connect(url, ConnectionProperties::default())
        .await
        .expect("a connection to TEST_RABBITMQ_URL")
}

async fn delete(channel: &Channel, queues: &[String]) {
    for queue in queues {
        // It may not be there.
        let deleting = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        let _ = deleting.await;
    }
}

fn message_of(taken: BasicGetMessage) -> Message {
    let properties = &taken.delivery.properties;
    let headers = properties.headers().clone().unwrap_or_default();
    let text = |(name, value): (&lapin::types::ShortString, &AMQPValue)| match value {
        AMQPValue::LongString(text) => Some((name.to_string(), text.to_string())),
        _ => None,
    };
    Message {
        id: properties.message_id().as_ref().map(ToString::to_string),
        expiration: properties.expiration().as_ref().map(ToString::to_string),
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        is_persistent: *properties.delivery_mode() == Some(2),
        is_redelivered: taken.delivery.redelivered,
        headers: headers.inner().iter().filter_map(text).collect(),
        body: taken.delivery.data,
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let (server, queues) = (self.server.clone(), self.all());
        // A thread of its own: whoever drops this may be inside a runtime, or have none.
        let deleting = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    let connection = connect(&server).await;
                    if let Ok(channel) = connection.create_channel().await {
                        delete(&channel, &queues).await;
                    }
                    let _ = connection.close(200, "done".into()).await;
                });
            }
        });
        let _ = deleting.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn queues_are_used_as_by_another_program_and_gone_afterwards() {
        let queues = Queues::fresh();
        let send = queues.send();
        assert_eq!(queues.count(&send).await, 0);
        queues.declare(&send).await;
        for body in [&b"a"[..], b"b", b"c"] {
            queues.publish(&send, body).await;
        }
        queues.wait_for_count(&send, 3).await;
        assert_eq!(queues.take(&send).await.unwrap().body, b"a");
        assert_eq!(queues.take_many(&send, 1).await[0].body, b"b");
        assert_eq!(queues.purge(&send).await, 1);
        assert_eq!(queues.take(&send).await, None);
        queues.publish(&send, b"d").await;
        queues.declare(&queues.low()).await;
        queues.wait_for_count(&queues.low(), 0).await;
        queues.delete(&queues.low()).await;
        assert_eq!(queues.count_if_there(&queues.low()).await, None);
        drop(queues);

        let others = Queues::fresh();
        assert_eq!(others.count_if_there(&send).await, None);
    }
}
