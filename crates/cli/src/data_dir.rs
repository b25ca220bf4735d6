//! The folder of the embedded database, and the lock that keeps a second server out.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

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

/// For so long at most is the lock held by someone who only looks whether a server runs.
const A_LOOK: Duration = Duration::from_millis(100);

/// Whether a server runs on this database file. Nothing is created.
pub(crate) fn is_served(database: &Path) -> bool {
    File::open(database.with_extension("lock"))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
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
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(A_LOOK);
                file.try_lock()
            }
            locked => locked,
        };
        match locked {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_served_while_the_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("posthaste.db");
        assert!(!is_served(&database));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        let lock = ServerLock::take(&database).unwrap();
        assert!(is_served(&database));
        assert!(ServerLock::take(&database).is_err());
        drop(lock);
        assert!(!is_served(&database));
    }
}
