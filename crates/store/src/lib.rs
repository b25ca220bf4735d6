//! Where emails are kept.
//!
//! Stores execute transitions that `posthaste_core::lifecycle` decided; they never decide. They
//! know nothing of brokers, transports or HTTP.

mod ledger;
mod message;
mod port;
pub mod postgres;
pub mod sqlite;
mod statistics;

pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{SqliteOptions, SqliteStore};
