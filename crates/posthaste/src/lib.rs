//! Posthaste inside your own application.
//!
//! The `Outbox` for embedding (send inline, fall back to the queue) is being built. Until then
//! this crate gives access to the parts that it will stand on; their names may still change.

pub use posthaste_core as core;
pub use posthaste_engine as engine;
