//! Queues in RabbitMQ, shared by any number of processes.
//!
//! There are two lanes: tickets of our own emails, and failed messages of other services. Each
//! has two connections, one to publish and one to consume, because RabbitMQ stops reading from
//! those that publish when it runs out of memory or disk. All are made again for ever. While
//! RabbitMQ is away, every publish is answered at once, and all work waits in the store.

mod batch;
mod channel_pool;
mod connection;
mod consumer;
mod headers;
mod health;
mod inbox;
mod incoming;
mod lane;
mod ledger;
mod message;
mod messages;
mod options;
mod outgoing;
mod publisher;
mod retry_message;
mod review;
mod socket;
mod subscription;
mod ticket_body;
mod tickets;
mod topology;
mod wire;

pub use messages::RabbitMqMessages;
pub use options::{Existing, OptionsError, QueueNames, QueueType, RabbitMqOptions};
pub use retry_message::RetryMessage;
pub use tickets::RabbitMqBroker;
