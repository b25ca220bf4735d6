//! Where emails are kept.
//!
//! Stores execute transitions that `posthaste_core::lifecycle` decided; they never decide. They
//! know nothing of brokers, transports or HTTP.
//!
//! Each database is a feature, `sqlite` and `postgres`, so that a program that needs only one does not
//! build the other's client. Both are on by default.

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("there is nowhere to keep emails: enable the feature `sqlite` or `postgres`");

mod dead_group;
mod feedback;
mod history;
pub mod ledger;
mod message;
mod operation;
mod port;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prune;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod statistics;
mod suppression;
mod sweep;
mod template;
mod turn;
mod way;

#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
