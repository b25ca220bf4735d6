//! What the application is told by its environment.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use posthaste::Mailbox;

/// What the application is told by its environment. Not for logs: there may be a password in it.
#[derive(Clone)]
pub struct Settings {
    /// `LISTEN`: where browsers find it.
    pub listen: SocketAddr,
    /// `DATABASE`: the file with the bookings and the outbox.
    pub database: PathBuf,
    /// `SMTP_URL`: the mail server.
    pub smtp_url: String,
    /// `HOST_ADDRESS`: whom mail comes from, and who gets a copy of it.
    pub host: Mailbox,
}

impl Settings {
    /// Reads the environment. Everything has a default that is good on a developer's machine.
    ///
    /// # Errors
    ///
    /// If a variable cannot be meant like that.
    pub fn from_env() -> anyhow::Result<Self> {
        let read = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
        Ok(Self {
            listen: read("LISTEN", "127.0.0.1:8090")
                .parse()
                .context("LISTEN is not an address; write it as in 127.0.0.1:8090")?,
            database: read("DATABASE", "booking.db").into(),
            smtp_url: read("SMTP_URL", "smtp://127.0.0.1:2525"),
            host: Mailbox::new("Clay Studio", &read("HOST_ADDRESS", "studio@clay.example"))
                .context("HOST_ADDRESS is not an address; write it as in studio@clay.example")?,
        })
    }
}
