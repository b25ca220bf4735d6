//! Whole scenarios on the real binary, one file per thing that goes wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod backend;
mod bad_input;
mod broker_outage;
mod command_line;
mod crash;
mod database_outage;
mod dead_letter_queue;
mod first_steps;
mod fleet;
mod foreign_ticket;
mod frozen_sender;
mod gate;
mod layers;
mod lease;
mod one_ticket;
mod recording_server;
mod retry;
mod retry_route;
mod roles;
mod seed_000;
mod shutdown;
mod statistics;
mod support;
