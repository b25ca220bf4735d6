//! The real binary, run as a user would, and treated worse.
//!
//! [`Posthaste`] is one server process on a data directory of its own: started on a free port,
//! asked over HTTP, killed, paused, restarted. Its output is kept and shown when something
//! fails. Dropping it kills the process.

mod builder;
mod command;
mod http;
mod log;
mod signal;
mod wait;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub use builder::PosthasteBuilder;
pub use http::Answer;

use self::log::Log;

/// When to give up waiting for something that a healthy process does in well under a second.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running server, or one that was killed and may be started again.
pub struct Posthaste {
    program: PathBuf,
    /// What is passed to `serve` besides the data directory and the address.
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    data_dir: DataDir,
    child: Option<Child>,
    port: u16,
    log: Log,
    client: reqwest::Client,
}

enum DataDir {
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl DataDir {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }
}

impl Posthaste {
    /// A server that runs this program, once started.
    pub fn builder(program: impl Into<PathBuf>) -> PosthasteBuilder {
        PosthasteBuilder::new(program.into())
    }

    /// Where it keeps everything.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// The port it listens on now.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address of a path such as `/v1/emails`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Everything it wrote so far, over all restarts.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Starts it again on the same data directory, with these variables set besides those it
    /// had. A process that still runs is killed first.
    pub async fn restart(&mut self, variables: &[(&str, &str)]) {
        self.kill9();
        for (name, value) in variables {
            self.set(name, value);
        }
        self.log.note("restarted");
        self.start().await;
    }

    /// Sets a variable for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable back for the next start.
    pub fn unset(&mut self, name: &str) {
        self.variables.remove(name);
    }

    /// Starts the process and waits until it says where it listens.
    async fn start(&mut self) {
        let mut command = self.command();
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(self.data_dir.path())
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", self.program.display()));
        let listening = self.log.follow(&mut child);
        self.child = Some(child);
        match tokio::time::timeout(DEADLINE, listening).await {
            Ok(Ok(port)) => self.port = port,
            Ok(Err(_)) => self.fail("it ended before it listened"),
            Err(_) => self.fail("it does not say where it listens"),
        }
    }

    /// The program with a clean environment, in its data directory: nothing of the developer's
    /// own configuration reaches it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.data_dir.path());
        command.stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_none_or(builder::is_configuration) {
                command.env_remove(&name);
            }
        }
        command.envs(&self.variables);
        command
    }

    /// Ends the test with everything that is known.
    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        panic!("{what}; its output:\n{}", self.log());
    }
}

impl Drop for Posthaste {
    fn drop(&mut self) {
        // Only a process that ends by itself says which lines it ran.
        if std::env::var_os("LLVM_PROFILE_FILE").is_some() {
            self.end_gently();
        }
        self.kill9();
    }
}

#[cfg(test)]
mod tests;
