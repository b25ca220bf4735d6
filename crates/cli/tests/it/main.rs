//! Whole scenarios on the real binary, one file per thing that goes wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod backend;
mod bad_input;
mod command_line;
mod crash;
mod first_steps;
mod gate;
mod layers;
mod lease;
mod recording_server;
mod retry;
mod shutdown;
mod statistics;
mod support;
