//! Where messages go that cannot be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_core::port::Handed;
use tracing::{debug, warn};
use uuid::Uuid;

use super::headers::ROUTING;
use super::health::Health;
use super::incoming::Incoming;
use super::message::{Message, SetText};
use super::publisher::Publisher;
use super::wire;

/// How long a message is held that can neither be read nor be put aside.
const PAUSE: Duration = Duration::from_secs(5);

/// Puts messages aside for people to look at.
pub(super) struct Review {
    pub(super) queue: String,
    pub(super) publisher: Arc<Publisher>,
    pub(super) health: Arc<Health>,
}

impl Review {
    /// Puts the raw bytes aside, and says whether they are safe. If not, says so after a pause.
    pub(super) async fn keep(&self, incoming: Incoming, from: &str, reason: &str) -> bool {
        let message = self.message(incoming, from, reason);
        let handed = self.publisher.publish(vec![message]).await;
        if handed == [Handed::Confirmed] {
            self.health.count_undecodable();
            let review = &self.queue;
            warn!(queue = from, reason, %review, "put a message aside that cannot be read");
            return true;
        }
        debug!(
            queue = from,
            reason, "a message that cannot be read could not be put aside"
        );
        tokio::time::sleep(PAUSE).await;
        false
    }

    /// The same bytes under the same id, without what would end their life early.
    fn message(&self, incoming: Incoming, from: &str, reason: &str) -> Message {
        let original = &incoming.properties;
        let id = original.message_id().clone();
        let id = id.unwrap_or_else(|| ShortString::from(Uuid::now_v7().to_string()));
        let properties = kept(original).with_headers(headers(original, from, reason));
        Message::with_properties(&self.queue, id, incoming.body, properties)
    }
}

/// What helps to read the bytes, and to know where they came from.
fn kept(original: &BasicProperties) -> BasicProperties {
    let texts: [(_, SetText); 5] = [
        (original.content_type(), BasicProperties::with_content_type),
        (
            original.content_encoding(),
            BasicProperties::with_content_encoding,
        ),
        (
            original.correlation_id(),
            BasicProperties::with_correlation_id,
        ),
        (original.kind(), BasicProperties::with_type),
        (original.app_id(), BasicProperties::with_app_id),
    ];
    let mut kept = BasicProperties::default();
    for (text, set) in texts {
        if let Some(text) = text {
            kept = set(kept, text.clone());
        }
    }
    match original.timestamp() {
        Some(timestamp) => kept.with_timestamp(*timestamp),
        None => kept,
    }
}

/// The original headers, except those by which RabbitMQ would route, and why it is here.
fn headers(original: &BasicProperties, from: &str, reason: &str) -> FieldTable {
    let mut headers = BTreeMap::new();
    if wire::size_bytes(original) <= wire::LARGEST_BYTES {
        let given = original.headers().iter().flatten();
        let kept = given.filter(|(name, _)| !ROUTING.contains(&name.as_str()));
        headers.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    } else {
        insert(&mut headers, "x-review-note", "too many headers to keep");
    }
    insert(&mut headers, "x-error-reason", reason);
    insert(&mut headers, "x-review-reason", reason);
    insert(&mut headers, "x-original-queue", from);
    headers.into()
}

fn insert(headers: &mut BTreeMap<ShortString, AMQPValue>, name: &str, value: &str) {
    headers.insert(name.into(), AMQPValue::LongString(value.into()));
}
