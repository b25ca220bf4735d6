//! The engine over a real SQLite store, with time and transport under the tests' control.

mod lost_worker;
mod message;
mod scheduling;
mod world;
