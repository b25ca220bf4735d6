//! Exit codes: what a script can tell from how the program ended.

use std::process::ExitCode;

use posthaste_core::port::StoreError;

use crate::config::ConfigError;
use crate::output;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Ok = 0,
    /// It failed.
    Failure = 1,
    /// The command or the configuration is wrong.
    Usage = 2,
    /// There is no such thing.
    NotFound = 4,
    /// Some of it was done.
    PartlyDone = 5,
    /// Try again later.
    TryLater = 75,
}

impl Exit {
    /// How an action on so many things ended, of which some were refused and some not there.
    pub(crate) const fn of_action(all: usize, refused: usize, missing: usize) -> Self {
        match refused + missing {
            0 => Self::Ok,
            n if n < all => Self::PartlyDone,
            _ if refused == 0 => Self::NotFound,
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that is the user's to mend.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub String);

/// Something that is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotFound(pub(crate) String);

/// Says what went wrong and gives the code for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    output::error(&format!("posthaste: {error:#}"));
    let exit = if error.is::<ConfigError>() || error.is::<UsageError>() {
        Exit::Usage
    } else if error.is::<NotFound>() {
        Exit::NotFound
    } else if matches!(error.downcast_ref(), Some(StoreError::Unavailable(_))) {
        Exit::TryLater
    } else {
        Exit::Failure
    };
    exit.into()
}
