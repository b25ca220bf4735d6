//! Where tickets wait between acceptance and a sender.
//!
//! A broker is a hint: every ticket may be lost or doubled without harm. Brokers know nothing of
//! stores or transports.

pub mod in_process;
mod priority_queues;
pub mod rabbitmq;

pub use in_process::InProcessBroker;
pub use rabbitmq::{RabbitMqBroker, RabbitMqOptions};
