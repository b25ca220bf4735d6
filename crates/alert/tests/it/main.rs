//! Each channel against a local server that takes only what the real one takes.

mod pagerduty;
mod receiver;
mod slack;
mod trouble;
mod webhook;
