//! A `RetryMessage` as another service writes it: what `retry_message.proto` describes, written
//! down once more on purpose, so that a change there is noticed here.

use prost::Message as _;
use uuid::Uuid;

/// The fields that a handler of failures sets.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RetryMessage {
    #[prost(string, tag = "1")]
    pub(crate) message_id: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) original_payload: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) original_queue: String,
    #[prost(string, tag = "4")]
    pub(crate) error_reason: String,
    #[prost(int32, tag = "5")]
    pub(crate) retry_count: i32,
    #[prost(int32, tag = "6")]
    pub(crate) max_retries: i32,
    #[prost(int64, tag = "7")]
    pub(crate) next_retry_at_ms: i64,
}

impl RetryMessage {
    /// As it goes over the wire.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// An id for a message: random, as most programs make them.
pub(crate) fn random_id(bytes: [u8; 16]) -> Uuid {
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
