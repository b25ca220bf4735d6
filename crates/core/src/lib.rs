//! What Posthaste knows before it touches the world.
//!
//! Types, the lifecycle of an email, retry policies, the meaning of failures, and the ports
//! that stores, brokers and transports implement. Everything here is pure: no runtime, no SQL,
//! no HTTP. Given the same input it gives the same answer, so it can be tested exhaustively.

pub mod address;
pub mod admin;
pub mod alert;
pub mod answer;
pub mod attempt;
pub mod classification;
pub mod decision;
pub mod duration;
pub mod email;
pub mod failpoint;
pub mod feedback;
pub mod fingerprint;
pub mod lifecycle;
pub mod message;
pub mod operation;
pub mod port;
pub mod reply;
pub mod retry_policy;
pub mod status;
mod step;
pub mod suppression;
pub mod template;
pub mod way;

pub use jiff::Timestamp;
