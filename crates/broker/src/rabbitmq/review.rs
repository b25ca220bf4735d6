//! Where tickets go that cannot be read.

use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_core::port::Published;
use tracing::{debug, warn};
use uuid::Uuid;

use super::health::Health;
use super::publisher::{Message, Publisher};
use super::ticket_body::TicketError;

/// How long a ticket is held that can neither be read nor be put aside.
const PAUSE: Duration = Duration::from_secs(5);

/// Puts messages aside for people to look at.
pub(super) struct Review {
    pub(super) queue: String,
    pub(super) publisher: Arc<Publisher>,
    pub(super) health: Arc<Health>,
}

impl Review {
    /// Puts the raw bytes aside, and says whether they are safe. If not, says so after a pause.
    pub(super) async fn keep(&self, delivery: Delivery, from: &str, error: TicketError) -> bool {
        let message = self.message(delivery, from, error);
        let published = self.publisher.publish(vec![message]).await;
        if published == [Published::Confirmed] {
            self.health.count_undecodable();
            warn!(queue = from, %error, review = %self.queue, "put a ticket aside that cannot be read");
            return true;
        }
        debug!(queue = from, %error, "a ticket that cannot be read could not be put aside");
        tokio::time::sleep(PAUSE).await;
        false
    }

    /// The same bytes under the same id, without what would end their life early.
    fn message(&self, delivery: Delivery, from: &str, error: TicketError) -> Message {
        let original = &delivery.properties;
        let mut headers = original.headers().clone().unwrap_or_default();
        insert(&mut headers, "x-error-reason", &error.to_string());
        insert(&mut headers, "x-original-queue", from);
        let mut properties = BasicProperties::default().with_headers(headers);
        if let Some(content_type) = original.content_type() {
            properties = properties.with_content_type(content_type.clone());
        }
        let id = original.message_id().clone();
        let id = id.unwrap_or_else(|| ShortString::from(Uuid::now_v7().to_string()));
        Message::with_properties(&self.queue, id, delivery.data, properties)
    }
}

fn insert(headers: &mut FieldTable, name: &str, value: &str) {
    headers.insert(name.into(), AMQPValue::LongString(value.into()));
}
