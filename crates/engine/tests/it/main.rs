//! The engine over a real SQLite store, with time and transport under the tests' control.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod alerting;
mod bulk;
mod inline;
mod lost_worker;
mod message;
mod message_lane;
mod scheduling;
mod template;
mod ways;
mod world;
