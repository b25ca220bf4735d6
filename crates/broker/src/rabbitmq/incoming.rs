//! A message as it was delivered, not read yet.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;

/// A message as it was delivered, not read yet.
pub(super) struct Incoming {
    pub(super) body: Bytes,
    pub(super) properties: BasicProperties,
    /// Whether it was delivered before, to us or another process.
    pub(super) redelivered: bool,
}

impl From<Delivery> for Incoming {
    fn from(delivery: Delivery) -> Self {
        Self {
            body: delivery.data.into(),
            properties: delivery.properties,
            redelivered: delivery.redelivered,
        }
    }
}
