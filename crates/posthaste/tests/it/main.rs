//! The library as an application uses it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[cfg(feature = "calendar")]
mod calendar;
#[cfg(feature = "calendar")]
mod calendar_mail;
mod delivery;
mod dying_child;
#[cfg(feature = "calendar")]
mod golden;
#[cfg(feature = "calendar")]
mod invitation_reader;
mod send_in;
mod transaction;
mod tree;
mod world;
