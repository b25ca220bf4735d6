//! RabbitMQ queues for one test, on the server that the scripts provide, and a program of
//! someone else that uses them.

mod message;
mod name;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

pub use self::message::Message;

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
    /// What was made here, whatever its name.
    made: Mutex<BTreeSet<String>>,
    connection: OnceCell<Connection>,
    channel: OnceCell<Channel>,
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
            made: Mutex::default(),
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
            ("RETRY_QUEUE", self.messages()),
            ("MANUAL_REVIEW_QUEUE", self.review()),
        ]
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a queue as a process would find it.
    pub async fn declare(&self, queue: &str) {
        self.declare_with(queue, FieldTable::default()).await;
    }

    /// Makes a queue with these arguments besides its type.
    pub async fn declare_with(&self, queue: &str, mut arguments: FieldTable) {
        self.made().insert(queue.to_owned());
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
        let properties = BasicProperties::default();
        self.publish_with(queue, body, properties).await;
    }

    /// Puts these bytes into a queue with what they say about themselves.
    pub async fn publish_with(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
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
        taken.expect("a queue that is there").map(Message::from)
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

    /// Takes the first message and gives it back: whoever gets it next is told that it was
    /// delivered before.
    pub async fn redeliver(&self, queue: &str) {
        let options = BasicGetOptions { no_ack: false };
        let taken = self.channel().await.basic_get(queue.into(), options).await;
        let taken = taken.expect("a queue that is there").expect("a message");
        let options = BasicRejectOptions { requeue: true };
        let rejected = taken.delivery.acker.reject(options).await;
        assert!(rejected.expect("an open channel"), "it was settled before");
    }

    /// How many messages wait in a queue for a consumer; 0 if it is not there.
    pub async fn count(&self, queue: &str) -> u32 {
        self.count_if_there(queue).await.unwrap_or(0)
    }

    /// Whether a queue is there.
    pub async fn is_there(&self, queue: &str) -> bool {
        self.count_if_there(queue).await.is_some()
    }

    async fn count_if_there(&self, queue: &str) -> Option<u32> {
        // A queue that is missing costs the channel its life.
        let connection = self.connection().await;
        let channel = loop {
            // The one that was lost before may still be in the way.
            match connection.create_channel().await {
                Ok(channel) => break channel,
                Err(error) if error.is_amqp_soft_error() => sleep(INTERVAL).await,
                Err(error) => panic!("no channel: {error}"),
            }
        };
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
        queues.redeliver(&send).await;
        assert!(queues.take(&send).await.unwrap().is_redelivered);
        queues.declare(&queues.low()).await;
        queues.wait_for_count(&queues.low(), 0).await;
        queues.delete(&queues.low()).await;
        assert_eq!(queues.count_if_there(&queues.low()).await, None);
        drop(queues);

        let others = Queues::fresh();
        assert_eq!(others.count_if_there(&send).await, None);
    }
}
