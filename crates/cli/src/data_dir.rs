//! The folder of the embedded database, and the lock that keeps a second server out.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::Context as _;

use crate::exit::UsageError;

/// Makes the folder of the database and an empty file in it, for this user's eyes only: they
/// hold everyone's mail. What is there already keeps the rights it has.
pub(crate) fn create(database: &Path) -> anyhow::Result<()> {
    let folder = database
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
    // SQLite gives its other files the rights of this one.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(database)
        .with_context(|| format!("cannot write {}", database.display()))?;
    Ok(())
}

/// Held by the one server of a database file; the system releases it however the process ends.
pub(crate) struct ServerLock {
    _file: File,
}

impl ServerLock {
    /// Takes the lock beside the database file.
    pub(crate) fn take(database: &Path) -> anyhow::Result<Self> {
        let path = database.with_extension("lock");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let message = format!(
                    "another posthaste serves {} already: stop it, or use another --data-dir",
                    database.display()
                );
                Err(UsageError(message).into())
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}
