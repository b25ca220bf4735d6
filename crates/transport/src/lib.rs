//! How emails leave: SMTP to a relay, the HTTP API of a provider, or captured into the dev inbox.
//!
//! All stand behind the core port `Transport` and keep its one promise: nothing can have left
//! before the gate was passed. Nothing here decides what a failure means or when to try again;
//! it reports what happened, recipient by recipient, and how far the conversation had got.
//!
//! Each is a feature, `smtp`, `http` and `capture`, and on by default.
//! So are two companions: `dns` tells whether a domain takes mail at all, and `feedback` reads
//! what providers say later of emails that they took.

#[cfg(feature = "capture")]
mod capture;
#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "feedback")]
pub mod feedback;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "smtp")]
mod smtp;

#[cfg(feature = "capture")]
pub use capture::CaptureTransport;
#[cfg(feature = "dns")]
pub use dns::{DnsDomains, DnsOptions, InvalidDnsOptions};
#[cfg(feature = "http")]
pub use http::{HttpConfig, HttpConfigError, HttpTransport, ProviderConfig};
#[cfg(feature = "smtp")]
pub use smtp::{Credentials, InvalidSmtpConfig, SmtpConfig, SmtpTransport, Timeouts, TlsMode};
