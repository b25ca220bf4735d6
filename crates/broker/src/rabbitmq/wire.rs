//! Properties as they are on the wire: the one encoding of them that does not change.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::protocol::basic::gen_properties;
use lapin::types::FieldTable;
use posthaste_core::message::DeliveryHash;
use sha2::{Digest, Sha256};

use super::incoming::Incoming;

/// How long the properties of a message may be that is to come back: with what we add, they must
/// fit into a frame of 128 KiB.
pub(super) const LARGEST_BYTES: usize = 112 << 10;

/// What RabbitMQ adds to the headers when it delivers a message again.
pub(super) const ADDED_BY_RABBITMQ: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// How long properties are on the wire.
pub(super) fn size_bytes(properties: &BasicProperties) -> usize {
    encode(properties).len()
}

/// Identifies the content of a delivery: its bytes and all that its sender said about it. Whoever
/// publishes the same again with another time or id makes another content; RabbitMQ, when it
/// delivers again, does not.
pub(super) fn hash(incoming: &Incoming) -> DeliveryHash {
    let properties = encode(&as_sent(&incoming.properties));
    let mut hash = Sha256::new();
    hash.update((properties.len() as u64).to_be_bytes());
    hash.update(properties);
    hash.update(&incoming.body);
    hash.finalize().into()
}

/// The properties without what RabbitMQ added.
fn as_sent(properties: &BasicProperties) -> BasicProperties {
    let headers = properties.headers().iter().flatten();
    let of_sender = headers.filter(|(name, _)| !ADDED_BY_RABBITMQ.contains(&name.as_str()));
    let of_sender = of_sender.map(|(name, value)| (name.clone(), value.clone()));
    // Also if there are none: RabbitMQ may have added the first.
    let headers = FieldTable::from(of_sender.collect::<BTreeMap<_, _>>());
    properties.clone().with_headers(headers)
}

fn encode(properties: &BasicProperties) -> Vec<u8> {
    // Into memory, and of what came from the wire or fits on it: this does not fail.
    let encoded = gen_properties(properties)(Vec::new().into());
    encoded.map_or_else(|_| Vec::new(), |context| context.into_inner().0)
}
