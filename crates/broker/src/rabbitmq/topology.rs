//! The queues we need, and how they are declared.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, Error, ErrorKind};

use super::health::{Health, Role};
use super::options::{Existing, QueueType, RabbitMqOptions};

/// How often a quorum queue delivers a message before it drops it. As good as never: that it was
/// given back, or its connection cut, says nothing against it. Said explicitly because
/// newer servers have a low limit of their own, and older ones know no word for "never".
const DELIVERY_LIMIT: i32 = 1_000_000;

/// A queue as it should be. Queues of tickets have no dead-letter exchange on purpose: a ticket
/// is a hint, and dropping it is harmless.
#[derive(Debug, Clone)]
pub(super) struct QueueSpec {
    pub(super) name: String,
    arguments: FieldTable,
}

impl QueueSpec {
    pub(super) fn new(name: String, queue_type: QueueType) -> Self {
        let mut spec = Self {
            name,
            arguments: FieldTable::default(),
        };
        match queue_type {
            QueueType::Quorum => {
                spec.set("x-queue-type", text("quorum"));
                spec.set("x-delivery-limit", AMQPValue::LongInt(DELIVERY_LIMIT));
            }
            QueueType::Classic => spec.set("x-queue-type", text("classic")),
        }
        spec
    }

    /// Keeps the newest ones only.
    fn with_limit(mut self, limit: u32) -> Self {
        self.set("x-max-length", AMQPValue::LongLongInt(limit.into()));
        self.set("x-overflow", text("drop-head"));
        self
    }

    fn set(&mut self, name: &str, value: AMQPValue) {
        self.arguments.insert(name.into(), value);
    }
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// Every queue that tickets need.
pub(super) fn queues_of_tickets(options: &RabbitMqOptions) -> Vec<QueueSpec> {
    let names = &options.names;
    let spec = |name| QueueSpec::new(name, options.queue_type);
    let tickets = names.of_tickets().into_iter().map(|(name, _)| spec(name));
    let dead = spec(names.dead.clone()).with_limit(options.dead_notice_limit);
    let review = spec(names.review.clone());
    tickets.chain([dead, review]).collect()
}

/// Every queue of ours that messages of other services need.
pub(super) fn queues_of_messages(options: &RabbitMqOptions) -> Vec<QueueSpec> {
    let names = [&options.names.messages, &options.names.review];
    let spec = |name: &String| QueueSpec::new(name.clone(), options.queue_type);
    names.into_iter().map(spec).collect()
}

/// Why a queue is not there.
pub(super) enum DeclareError {
    /// RabbitMQ refused this queue; others may work.
    Queue(String),
    /// The connection is of no use.
    Connection(Error),
}

impl From<Error> for DeclareError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// Makes sure that a queue is there.
pub(super) async fn declare(
    connection: &Connection,
    spec: &QueueSpec,
    existing: Existing,
) -> Result<(), DeclareError> {
    let Some(refusal) = try_declare(connection, spec, false).await? else {
        return Ok(());
    };
    if existing == Existing::Accept && try_declare(connection, spec, true).await?.is_none() {
        return Ok(());
    }
    let name = &spec.name;
    let advice = "delete the queue, or use it as it is with broker.existing_queues = \"accept\"";
    Err(DeclareError::Queue(format!(
        "RabbitMQ refuses the queue `{name}` ({refusal}): {advice}"
    )))
}

/// Declares a queue on a channel of its own, because a refusal closes the channel. The answer is
/// the reason of a refusal.
async fn try_declare(
    connection: &Connection,
    spec: &QueueSpec,
    passive: bool,
) -> Result<Option<String>, Error> {
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions {
        durable: true,
        passive,
        ..QueueDeclareOptions::default()
    };
    let name = spec.name.as_str().into();
    let declared = channel.queue_declare(name, options, spec.arguments.clone());
    match declared.await {
        Ok(_) => Ok(None),
        Err(error) if error.is_amqp_soft_error() => Ok(Some(said(&error))),
        Err(error) => Err(error),
    }
}

/// What RabbitMQ itself said.
pub(super) fn said(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        _ => error.to_string(),
    }
}

/// Declares queues one after the other, and takes note of those that cannot be used.
pub(super) async fn declare_all(
    connection: &Connection,
    queues: &[QueueSpec],
    existing: Existing,
    health: &Health,
    role: Role,
) -> Result<(), Error> {
    for spec in queues {
        match declare(connection, spec, existing).await {
            Ok(()) => health.queue_works(role, &spec.name),
            Err(DeclareError::Queue(trouble)) => health.queue_trouble(role, &spec.name, trouble),
            Err(DeclareError::Connection(error)) => return Err(error),
        }
    }
    Ok(())
}
