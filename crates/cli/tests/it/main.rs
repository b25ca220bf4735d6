//! Whole scenarios on the real binary, one file per thing that goes wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod admins;
mod backend;
mod bad_input;
mod broker_outage;
mod browser;
mod command_line;
mod crash;
mod database_outage;
mod dead_letter_queue;
mod desk_safety;
mod desk_screens;
mod desk_seed_003;
mod desk_seed_004;
mod email_traces;
mod first_steps;
mod fleet;
mod foreign_ticket;
mod frozen_sender;
mod gate;
mod layers;
mod lease;
mod messages_crash;
mod messages_input;
mod messages_operator;
mod messages_outage;
mod messages_python;
mod messages_queue_trouble;
mod messages_retention;
mod messages_roles;
mod messages_row;
mod messages_support;
mod one_ticket;
mod recording_server;
mod retry;
mod retry_route;
mod roles;
mod seed_000;
mod seed_002;
mod seed_002_properties;
mod seed_002_settings;
mod shutdown;
mod statistics;
mod support;
mod traces;
