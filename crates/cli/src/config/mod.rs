//! The configuration: as written, then validated.
//!
//! `config.default.toml` is the reference: it lists every key, so that an unknown one can be told
//! from a known one, and gives each environment variable its type.

mod load;
mod nearest;
mod settings;

pub(crate) use load::{ConfigError, Loaded, Overrides, load};
pub(crate) use settings::{CAPTURE, Database, LogFormat, Settings, without_password};
