//! How emails leave: SMTP to a relay, or captured into the dev inbox.
//!
//! Both stand behind the core port `Transport` and keep its one promise: nothing can have left
//! before the gate was passed. Nothing here decides what a failure means or when to try again;
//! it reports what happened, recipient by recipient, and how far the conversation had got.

mod capture;
mod smtp;

pub use capture::CaptureTransport;
pub use smtp::{Credentials, InvalidSmtpConfig, SmtpConfig, SmtpTransport, Timeouts, TlsMode};
