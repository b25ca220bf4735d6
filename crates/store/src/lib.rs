//! Where emails are kept.
//!
//! Stores execute transitions that `posthaste_core::lifecycle` decided; they never decide. They
//! know nothing of brokers, transports or HTTP.

mod dead_group;
mod history;
mod ledger;
mod message;
mod operation;
mod port;
pub mod postgres;
mod prune;
pub mod sqlite;
mod statistics;
mod sweep;
mod template;

pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{SqliteOptions, SqliteStore};
