//! The folder of the embedded database, and the lock that keeps a second server out.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

use crate::exit::UsageError;

/// Makes the folder a file stands in.
pub(crate) fn create_parent(path: &Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
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
