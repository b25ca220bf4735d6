//! Where a demo lives, and how it is configured. Nothing of the user's own configuration counts: a
//! demo must never touch real mail.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use posthaste_core::email::EmailId;

use crate::config::{Loaded, Overrides, load};
use crate::data_dir;
use crate::exit::UsageError;

/// The configuration, and the sign that a folder is a demo's.
const CONFIG: &str = "demo.toml";
const DATABASE: &str = "posthaste.db";

/// A folder that is removed at the end, unless the user named it.
pub(super) struct Folder {
    path: PathBuf,
    is_temporary: bool,
}

impl Folder {
    /// Makes the folder. One with emails that are not a demo's is refused: they would go to the
    /// demo's mail server.
    pub(super) fn prepare(wished: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match wished {
            Some(path) => Self {
                path: std::path::absolute(path)?,
                is_temporary: false,
            },
            None => Self {
                path: std::env::temp_dir().join(format!("posthaste-demo-{}", EmailId::generate())),
                is_temporary: true,
            },
        };
        let has = |name: &str| folder.path.join(name).exists();
        if has(DATABASE) && !has(CONFIG) {
            let message = format!(
                "{} has a database that is not a demo's: choose another --data-dir, or none",
                folder.path.display()
            );
            return Err(UsageError(message).into());
        }
        data_dir::create(&folder.path.join(DATABASE))?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn config_file(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    pub(super) const fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Writes the configuration, for the command line beside the demo, and reads it.
    pub(super) fn configure(&self, smtp_url: &str, listen: SocketAddr) -> anyhow::Result<Loaded> {
        let file = self.config_file();
        let text = configuration(&self.path, smtp_url, listen);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let overrides = Overrides {
            file: Some(file),
            ..Overrides::default()
        };
        Ok(load(&overrides, &BTreeMap::new())?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // In vain if someone else removed it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Retries that people have the patience to watch.
fn configuration(folder: &Path, smtp_url: &str, listen: SocketAddr) -> String {
    let folder = toml::Value::String(folder.display().to_string());
    let (host, port) = (listen.ip(), listen.port());
    format!(
        r#"# Written by `posthaste demo`.
[service]
name = "demo"
data_dir = {folder}
[server]
host = "{host}"
port = {port}
[smtp]
url = "{smtp_url}?tls=none"
connect_timeout = "2s"
command_timeout = "3s"
body_timeout = "3s"
final_dot_timeout = "3s"
[retry]
max_attempts = 4
schedule = ["3s", "6s", "12s"]
jitter = "500ms"
[policy.careful]
max_attempts = 4
backoff = {{ schedule = ["3s", "6s", "12s"] }}
on_unknown = "hold"
[shutdown]
drain = "5s"
[log]
level = "error"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn a_demo_has_a_valid_configuration_and_removes_its_folder() {
        let folder = Folder::prepare(None).unwrap();
        let loaded = folder.configure("smtp://127.0.0.1:2525", listen()).unwrap();
        let settings = loaded.settings;
        assert_eq!(settings.retry.max_attempts, 4);
        assert!(settings.policies().unwrap().get("careful").is_some());
        let path = folder.path().to_owned();
        assert!(path.is_dir());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_with_real_mail_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(DATABASE), "").unwrap();
        let error = Folder::prepare(Some(folder.path())).err().unwrap();
        assert!(error.to_string().contains("not a demo's"), "{error}");
        std::fs::write(folder.path().join(CONFIG), "").unwrap();
        drop(Folder::prepare(Some(folder.path())).unwrap());
        assert!(folder.path().is_dir(), "the user's folder stays");
    }
}
