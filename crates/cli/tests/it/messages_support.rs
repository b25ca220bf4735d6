//! What the scenarios of the message lane share.

use lapin::BasicProperties;
use posthaste_broker::RetryMessage;
use posthaste_testkit::Message;
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use prost::Message as _;
use uuid::Uuid;

use crate::backend::Backend;
use crate::support::{eventually, metric, text, until_healthy};

/// An hour in milliseconds: what waits for so long does not come by itself.
pub(crate) const AN_HOUR: &str = "3600000";

/// Everything on this, with short delays for messages.
pub(crate) fn quick(backend: &Backend) -> PosthasteBuilder {
    backend
        .posthaste()
        .env("BASE_DELAY_MS", "100")
        .env("MAX_DELAY_MS", "200")
        .env("POSTHASTE_MESSAGES__JITTER", "0s")
}

/// Everything on this, with short delays. A queue that does not take a message is asked for ever.
pub(crate) fn stubborn(backend: &Backend) -> PosthasteBuilder {
    quick(backend).env("POSTHASTE_MESSAGES__MAX_PUBLISH_FAILURES", "1000000")
}

/// Everything on this. Messages wait for an hour, and nobody looks for them meanwhile.
pub(crate) fn patient(backend: &Backend) -> PosthasteBuilder {
    quick(backend)
        .env("BASE_DELAY_MS", AN_HOUR)
        .env("MAX_DELAY_MS", AN_HOUR)
        .env("RETRY_POLL_INTERVAL_MS", AN_HOUR)
}

/// Starts the message lane alone, and waits until nothing is in trouble.
pub(crate) async fn start_lane(builder: PosthasteBuilder) -> Posthaste {
    let lane = builder.role("messages").start().await;
    until_healthy(&lane).await;
    lane
}

/// The queue of a service that is there, and the one where its failures are handed in.
pub(crate) async fn a_service(backend: &Backend) -> String {
    let queues = backend.queues();
    let queue = queues.of_service("orders");
    queues.declare(&queue).await;
    queues.declare(&queues.messages()).await;
    queue
}

/// A message of this queue that failed for the first time.
pub(crate) fn a_failure(queue: &str) -> RetryMessage {
    RetryMessage {
        message_id: Uuid::now_v7().to_string(),
        original_payload: br#"{"order": 4711}"#.to_vec().into(),
        original_queue: queue.to_owned(),
        error_reason: "the database is away".to_owned(),
        ..RetryMessage::default()
    }
}

/// Hands in a failure as `docs/messages.md` says: with an AMQP `message_id` of its own.
pub(crate) async fn hand_in(backend: &Backend, failure: &RetryMessage) {
    let id = Uuid::now_v7().to_string();
    let properties = BasicProperties::default().with_message_id(id.as_str().into());
    hand_in_with(backend, failure, properties).await;
}

/// Hands in a failure with these properties.
pub(crate) async fn hand_in_with(
    backend: &Backend,
    failure: &RetryMessage,
    properties: BasicProperties,
) {
    let queues = backend.queues();
    let body = failure.encode_to_vec();
    let properties = properties.with_delivery_mode(2);
    queues
        .publish_with(&queues.messages(), &body, properties)
        .await;
}

/// Takes a message that must come to this queue.
pub(crate) async fn take_one(backend: &Backend, queue: &str) -> Message {
    backend.queues().take_many(queue, 1).await.remove(0)
}

/// The message is the one that failed, put back for the n-th time.
pub(crate) fn assert_copy(message: &Message, failure: &RetryMessage, retry_count: i32) {
    assert_eq!(message.body, failure.original_payload, "{message:?}");
    assert_eq!(message.number("x-retry-count"), Some(retry_count));
    assert_eq!(message.headers["x-message-id"], failure.message_id);
    assert_eq!(message.headers["x-error-reason"], failure.error_reason);
    assert_eq!(message.headers["x-original-queue"], failure.original_queue);
    assert_eq!(message.id.as_ref(), Some(&failure.message_id));
    assert!(message.is_persistent);
}

/// Ends a lane as it should end, and says whether it left its own queue empty: whatever it did
/// not acknowledge is back there.
pub(crate) async fn acknowledged_all(lane: &mut Posthaste, backend: &Backend) -> bool {
    // What is handed in last is kept last, and waits.
    let mut last = a_failure("nowhere");
    last.next_retry_at_ms = i64::from(u32::MAX) * 1000;
    hand_in(backend, &last).await;
    let id = &last.message_id;
    backend.until_message_is(id, "pending").await;
    assert_eq!(lane.terminate().await, Some(0));
    let queues = backend.queues();
    queues.count(&queues.messages()).await == 0
}

/// How often failures arrived again and changed nothing.
pub(crate) async fn duplicates(lane: &Posthaste) -> f64 {
    metric(lane, "posthaste_message_duplicates_total").await
}

/// The value of a metric that may not be there yet.
pub(crate) async fn find_metric(lane: &Posthaste, name: &str) -> Option<f64> {
    let metrics = text(lane, "/metrics").await;
    let found = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map(|value| value.parse().unwrap())
}

/// Waits until a metric, which may not be there yet, has this value.
pub(crate) async fn until_metric(lane: &Posthaste, name: &str, value: f64) {
    eventually(&format!("{name} is {value}"), async || {
        find_metric(lane, name).await == Some(value)
    })
    .await;
}
