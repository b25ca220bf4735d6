//! What tests of several crates share: a clock that stands still, emails and decisions to work
//! with, one conformance suite per port, a harness for the real binary, and servers that can be
//! taken away from it.
//!
//! Never a dependency of anything that is shipped.

mod case;
mod clock;
mod collector;
mod database;
mod decision;
mod email;
mod provider;
mod proxy;
mod queues;
mod receiver;

pub mod broker_conformance;
pub mod process;
pub mod store_conformance;
pub mod store_tampering;

pub use clock::ManualClock;
pub use collector::{CollectedSpan, Collector};
pub use database::Database;
pub use decision::{
    budgets, dead, dead_of, exhausted, parking, sent, sent_as, transient, unknown_hold,
    unknown_resend, with_recipients,
};
pub use email::{EmailBuilder, an_email};
pub use provider::{Provider, ProviderAnswer, ProviderRequest, TakenEmail, webhook_headers};
pub use proxy::Proxy;
pub use queues::{Message, Queues};
pub use receiver::{Received, Receiver};
