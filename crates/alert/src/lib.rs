//! Tells a team that emails died or a way out stopped: Slack, PagerDuty, signed webhooks.
//!
//! Each channel turns an alert into one request. When to tell, and when to try again, is decided
//! elsewhere. Addresses of recipients never leave in an alert: errors are told without what varies
//! from email to email.

mod client;
mod pagerduty;
mod slack;
mod text;
mod webhook;

pub use client::InvalidChannel;
pub use pagerduty::{PAGERDUTY_URL, PagerDuty};
pub use slack::Slack;
pub use webhook::Webhook;
