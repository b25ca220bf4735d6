//! Each channel against a local server that takes only what the real one takes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod pagerduty;
mod receiver;
mod slack;
mod trouble;
mod webhook;
