//! How emails leave: SMTP to a relay, or captured into the dev inbox.
//!
//! Both stand behind the core port `Transport` and keep its one promise: nothing can have left
//! before the gate was passed. Nothing here decides what a failure means or when to try again;
//! it reports what happened, recipient by recipient, and how far the conversation had got.
//!
//! Each is a feature, `smtp` and `capture`, and on by default.

#[cfg(feature = "capture")]
mod capture;
#[cfg(feature = "smtp")]
mod smtp;

#[cfg(feature = "capture")]
pub use capture::CaptureTransport;
#[cfg(feature = "smtp")]
pub use smtp::{Credentials, InvalidSmtpConfig, SmtpConfig, SmtpTransport, Timeouts, TlsMode};
