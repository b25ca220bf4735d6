//! The few options that flags give.

use std::path::PathBuf;

use toml::Value;

/// What flags say.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// `--data-dir`.
    pub(crate) data_dir: Option<PathBuf>,
    /// `--listen`.
    pub(crate) listen: Option<std::net::SocketAddr>,
}

impl Overrides {
    /// What flags say, with their names.
    pub(super) fn given(&self) -> Vec<(String, String, Value)> {
        let mut given = Vec::new();
        let mut give = |path: &str, flag: &str, value: Value| {
            given.push((path.to_owned(), flag.to_owned(), value));
        };
        if let Some(data_dir) = &self.data_dir {
            let data_dir = Value::String(data_dir.display().to_string());
            give("service.data_dir", "--data-dir", data_dir);
        }
        if let Some(listen) = self.listen {
            let host = Value::String(listen.ip().to_string());
            give("server.host", "--listen", host);
            let port = Value::Integer(listen.port().into());
            give("server.port", "--listen", port);
        }
        given
    }
}
