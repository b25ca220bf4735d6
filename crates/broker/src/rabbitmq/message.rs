//! One message on its way to a queue.

use std::time::Duration;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};

use super::wire;

/// Persistent: survives a restart of the server.
const PERSISTENT: u8 = 2;

/// What a header frame holds besides the properties.
const FRAME_OVERHEAD_BYTES: usize = 32;

/// Sets one of the properties that are texts.
pub(super) type SetText = fn(BasicProperties, ShortString) -> BasicProperties;

/// One message on its way to a queue.
pub(super) struct Message {
    pub(super) queue: ShortString,
    pub(super) id: ShortString,
    pub(super) body: Bytes,
    pub(super) properties: BasicProperties,
}

impl Message {
    /// A message with JSON in it.
    pub(super) fn json(queue: &str, id: ShortString, body: Vec<u8>) -> Self {
        let properties = BasicProperties::default().with_content_type("application/json".into());
        Self::with_properties(queue, id, body.into(), properties)
    }

    /// A message that says this about itself.
    pub(super) fn with_properties(
        queue: &str,
        id: ShortString,
        body: Bytes,
        properties: BasicProperties,
    ) -> Self {
        let properties = properties
            .with_delivery_mode(PERSISTENT)
            .with_message_id(id.clone());
        // No queue can have a longer name, and none has an empty one.
        let queue = ShortString::try_new(queue).unwrap_or_default();
        Self {
            queue,
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

    /// Belongs to this trace.
    pub(super) fn tracing(mut self, traceparent: Option<&str>) -> Self {
        if let Some(traceparent) = traceparent {
            let mut headers = self.properties.headers().clone().unwrap_or_default();
            let value = AMQPValue::LongString(traceparent.into());
            headers.insert("traceparent".into(), value);
            self.properties = self.properties.with_headers(headers);
        }
        self
    }

    /// Whether the properties fit into one frame. RabbitMQ would close the connection otherwise.
    pub(super) fn fits(&self, frame_bytes: u32) -> bool {
        let size_bytes = wire::size_bytes(&self.properties) + FRAME_OVERHEAD_BYTES;
        // Zero stands for no limit.
        frame_bytes == 0 || size_bytes <= frame_bytes as usize
    }
}
