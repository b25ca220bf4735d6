//! A pottery studio's bookings, with mail that does not get lost: an application to copy from.
//!
//! A booking is a row in the application's own SQLite file, and a confirmation with an invitation
//! for the visitor's calendar, in one transaction. The confirmation is sent right after the commit,
//! in the background. While the mail
//! server is down it waits in the same file, and is tried again: bookings never wait for mail, and
//! never fail because of it.
//!
//! In the order in which a booking passes them: [`api`] and [`page`] are what the world sees,
//! [`studio`] is what is done, [`booking`] and [`slot`] are what it is about, [`store`] is where it
//! is kept, [`mail`] is what is written to people.

pub mod api;
pub mod booking;
pub mod mail;
pub mod page;
pub mod problem;
pub mod settings;
pub mod slot;
pub mod store;
pub mod studio;

use std::time::Duration;

use axum::Router;
use posthaste::{DeskOptions, Outbox, OutboxBuilder};

use crate::settings::Settings;
use crate::studio::Studio;

/// The outbox, in the application's own file. What was sent is removed from it at once: the booking
/// itself is the record.
pub fn outbox(settings: &Settings) -> OutboxBuilder {
    Outbox::sqlite(&settings.database)
        .smtp(&settings.smtp_url)
        .keep_sent(Duration::ZERO)
}

/// Everything the application answers: its own pages, and the outbox's at `/admin`.
pub fn router(studio: Studio) -> Router {
    // For development: without an admin, whoever is on this machine may see and act.
    let desk = DeskOptions::new().open_on_this_machine();
    let desk = studio.outbox().desk(desk);
    Router::new()
        .merge(page::routes())
        .merge(api::routes())
        .with_state(studio)
        .merge(desk)
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
