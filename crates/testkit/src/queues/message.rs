//! A message that was taken from a queue.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::message::BasicGetMessage;
use lapin::types::{AMQPValue, ShortString};
use serde_json::Value;

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
    /// Everything that it says about itself.
    pub properties: BasicProperties,
}

impl Message {
    /// Its body, which must be JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// A header that is a number, as RabbitMQ's clients write small ones.
    #[must_use]
    pub fn number(&self, header: &str) -> Option<i32> {
        let headers = self.properties.headers().as_ref()?;
        match headers.inner().get(header)? {
            AMQPValue::LongInt(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<BasicGetMessage> for Message {
    fn from(taken: BasicGetMessage) -> Self {
        let properties = &taken.delivery.properties;
        let headers = properties.headers().clone().unwrap_or_default();
        let text = |(name, value): (&ShortString, &AMQPValue)| match value {
            AMQPValue::LongString(text) => Some((name.to_string(), text.to_string())),
            _ => None,
        };
        Self {
            id: properties.message_id().as_ref().map(ToString::to_string),
            expiration: properties.expiration().as_ref().map(ToString::to_string),
            content_type: properties.content_type().as_ref().map(ToString::to_string),
            is_persistent: *properties.delivery_mode() == Some(2),
            is_redelivered: taken.delivery.redelivered,
            properties: properties.clone(),
            headers: headers.inner().iter().filter_map(text).collect(),
            body: taken.delivery.data,
        }
    }
}
