//! The lane of other services' messages on a real RabbitMQ.

use std::sync::Arc;

use bytes::Bytes;
use lapin::BasicProperties;
use posthaste_broker::{RabbitMqMessages, RabbitMqOptions, RetryMessage};
use posthaste_core::message::{Destination, MessageId, Outgoing, Properties};
use posthaste_core::port::{FailureDelivery, Handed, MessageBroker};
use posthaste_testkit::Queues;
use prost::Message as _;
use uuid::Uuid;

use crate::server::until;

/// A lane that is connected.
pub(crate) async fn started(options: RabbitMqOptions) -> Arc<RabbitMqMessages> {
    let lane = Arc::new(RabbitMqMessages::start(options).unwrap());
    ready(&lane).await;
    lane
}

/// Waits until nothing is wrong with a lane.
pub(crate) async fn ready(lane: &RabbitMqMessages) {
    until("the lane works", || lane.trouble().is_none()).await;
}

/// A message that failed in this queue.
pub(crate) fn a_failure(queue: &str, payload: &[u8]) -> RetryMessage {
    RetryMessage {
        message_id: Uuid::now_v7().to_string(),
        original_payload: Bytes::copy_from_slice(payload),
        original_queue: queue.to_owned(),
        error_reason: "timeout".into(),
        ..RetryMessage::default()
    }
}

/// Hands a failure in, as another service would.
pub(crate) async fn hand_in(queues: &Queues, message: &RetryMessage) {
    let properties = BasicProperties::default().with_content_type("application/x-protobuf".into());
    let body = message.encode_to_vec();
    let queue = queues.messages();
    queues.publish_with(&queue, &body, properties).await;
}

/// Takes so many failures, waiting for them.
pub(crate) async fn take(lane: &RabbitMqMessages, count: usize) -> Vec<FailureDelivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(lane.receive(count - taken.len()).await);
    }
    taken
}

/// The tags of deliveries.
pub(crate) fn tags(deliveries: &[FailureDelivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.tag).collect()
}

/// A message for this queue.
pub(crate) fn a_message(queue: &str, payload: impl Into<Bytes>) -> Outgoing {
    Outgoing {
        id: MessageId(Uuid::now_v7()),
        destination: Destination::Original(queue.to_owned()),
        payload: payload.into(),
        properties: Properties::default(),
    }
}

/// What becomes of one message.
pub(crate) async fn publish(lane: &RabbitMqMessages, message: Outgoing) -> Handed {
    let mut handed = lane.publish(vec![message]).await;
    assert_eq!(handed.len(), 1);
    handed.remove(0)
}
