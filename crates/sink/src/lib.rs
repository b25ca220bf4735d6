//! An SMTP server for trying things out and for tests: correct by default, and
//! misbehaving exactly as asked.
//!
//! Three things ask for misbehaviour: the local part of a recipient's address
//! ([`behaviours`], e.g. `tempfail@anything`), the [`SinkConfig`] the sink starts
//! with, and the [`Mode`] it is switched to while it runs.
//!
//! The sink is also an arbiter: it counts how many copies of each message reached
//! each recipient ([`Sink::copies`], [`Sink::duplicates`]). A copy is counted before
//! the reply to the final dot is written, because from then on the sender can no
//! longer take it back.
//!
//! It never relays, never stores anything on disk, and knows nothing about the rest
//! of this workspace, so that it can judge it.
//!
//! The life of a connection: [`Sink`] accepts it, `connection` reads commands from
//! the `wire` and hands them to the `session` (a state machine without any I/O), which
//! asks the `behaviour` table and the `history` what to answer; `ledger` counts.

mod auth;
mod behaviour;
mod body;
mod command;
mod config;
mod connection;
mod header;
mod history;
mod ledger;
mod mode;
mod reply;
mod session;
mod shared;
mod sink;
mod stream;
mod transaction;
mod wire;

pub use behaviour::{Behaviour, behaviours};
pub use config::{Capabilities, Credentials, SinkConfig};
pub use ledger::{CopyCount, ReceivedMessage, ReplyTotals, Report};
pub use mode::Mode;
pub use sink::Sink;
