//! Where emails are kept.
//!
//! Stores execute transitions that `posthaste_core::lifecycle` decided; they never decide. They
//! know nothing of brokers, transports or HTTP.

pub mod sqlite;

pub use sqlite::{SqliteOptions, SqliteStore};
