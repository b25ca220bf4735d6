//! A message on its way out.

use bytes::Bytes;

use super::{Failure, HeaderValue, MessageId, MessageRecord, Properties};

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Back into the queue it came from.
    Original(String),
    /// To people.
    Review,
}

/// A message on its way out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Which message.
    pub id: MessageId,
    /// Where to.
    pub destination: Destination,
    /// The message itself.
    pub payload: Bytes,
    /// What it says about itself, with what we add.
    pub properties: Properties,
}

impl Outgoing {
    /// Back into its queue, as the retry after those that were counted.
    #[must_use]
    pub fn retry(message: &MessageRecord) -> Self {
        let count = message.state.retry_count.saturating_add(1);
        let destination = Destination::Original(message.original_queue.clone());
        Self::new(message, destination, count)
    }

    /// To people, with the reason why.
    #[must_use]
    pub fn review(message: &MessageRecord, reason: &str) -> Self {
        let count = message.state.retry_count;
        Self::new(message, Destination::Review, count).because(reason)
    }

    /// To people, because it could not be kept.
    #[must_use]
    pub fn rejected(failure: &Failure, reason: &str) -> Self {
        Self {
            id: failure.message_id,
            destination: Destination::Review,
            payload: failure.payload.clone(),
            properties: failure.properties.clone(),
        }
        .with_facts(
            failure.retry_count,
            &failure.error_reason,
            &failure.original_queue,
        )
        .because(reason)
    }

    fn new(message: &MessageRecord, destination: Destination, retry_count: u32) -> Self {
        Self {
            id: message.id,
            destination,
            payload: message.payload.clone(),
            properties: message.properties.clone(),
        }
        .with_facts(retry_count, &message.error_reason, &message.original_queue)
    }

    fn with_facts(self, retry_count: u32, error_reason: &str, original_queue: &str) -> Self {
        let id = self.id.to_string();
        self.with("x-retry-count", HeaderValue::Integer(retry_count.into()))
            .with("x-message-id", id.as_str().into())
            .with("x-error-reason", error_reason.into())
            .with("x-original-queue", original_queue.into())
    }

    fn because(self, reason: &str) -> Self {
        self.with("x-review-reason", reason.into())
    }

    fn with(mut self, header: &str, value: HeaderValue) -> Self {
        self.properties.headers.insert(header.to_owned(), value);
        self
    }
}
