//! The configuration: as written, then validated.
//!
//! `config.default.toml` is the reference: it lists every key, so that an unknown one can be told
//! from a known one, and gives each environment variable its type.

mod alerts;
mod flag;
mod load;
mod messages;
mod nearest;
mod retention;
mod settings;
mod shown;
mod transport;
mod url;
mod ways;
mod well_known;

pub(crate) use flag::Overrides;
pub(crate) use load::{ConfigError, Loaded, load};
pub(crate) use messages::MESSAGE_POLICY;
pub(crate) use settings::{CAPTURE, Database, LogFormat, Settings};
pub(crate) use url::without_password;
pub(crate) use ways::SMTP;
