//! The HTTP face over a real store, read as sentences.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod action;
mod any_json;
mod batch;
mod browser;
mod dead_letter_pages;
mod desk;
mod docs;
mod fixture;
mod health;
mod idempotency;
mod inbox;
mod inline;
mod input;
mod list;
mod login;
mod message_action;
mod message_broker;
mod messages;
mod metrics;
mod mounted_desk;
mod operations;
mod outbox;
mod problem;
mod provider;
mod provider_events;
mod roles;
mod sending;
mod serve;
mod settings;
mod shape;
mod suppressions;
mod template_pages;
mod templates;
mod transport_pages;
mod transports;
mod waiting;
