//! The transports against servers: one that follows a script byte by byte, and the sink.

#![cfg(feature = "smtp")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod announced;
mod any_server;
mod authentication;
mod check;
mod config;
mod conversation;
mod deadline;
#[cfg(feature = "dns")]
mod dns;
mod failure;
#[cfg(feature = "feedback")]
mod feedback;
mod fixture;
mod gate;
#[cfg(feature = "http")]
mod http;
mod pool;
mod recipient;
mod scripted;
mod sink;
mod tls;
