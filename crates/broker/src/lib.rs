//! Where tickets wait between acceptance and a sender, and where failed messages of other services
//! come in and go out.
//!
//! For tickets a broker is a hint: each may be lost or doubled without harm. Messages are not: the
//! store has them before they are acknowledged, and until they are confirmed. Brokers know nothing
//! of stores or transports.

pub mod in_process;
mod priority_queues;
pub mod rabbitmq;

pub use in_process::InProcessBroker;
pub use rabbitmq::{RabbitMqBroker, RabbitMqMessages, RabbitMqOptions, RetryMessage};
