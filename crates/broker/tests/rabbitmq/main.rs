//! RabbitMQ through all that can happen to it: against a real server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod alarm;
mod dead_notice;
mod existing_queue;
mod failed_message;
mod foreign_ticket;
mod lost_connection;
mod lost_message_connection;
mod lost_queue;
mod message_lane;
mod node;
mod publishing;
mod republishing;
mod server;
mod settling;
mod unreadable_message;
