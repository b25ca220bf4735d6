//! One process on a port that is known before it listens, with nothing of the developer's own
//! configuration.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::server::memory_mib;

/// How often `/readyz` is asked for.
const POLL: Duration = Duration::from_millis(1);
/// When it must be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a process is started, any number of times on the same data.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) binary: PathBuf,
    /// The data directory. The log of the last start is in it.
    pub(crate) folder: PathBuf,
    pub(crate) variables: Vec<(String, String)>,
    /// Further arguments of `serve`.
    pub(crate) arguments: Vec<&'static str>,
}

/// A process that is ready. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    /// `host:port`.
    pub(crate) address: String,
    /// From its start until `/readyz` was answered 200.
    pub(crate) ready_after: Duration,
}

impl Start {
    /// The binary on a store of its own in a folder: what `DATABASE_URL` names, or a SQLite file.
    pub(crate) fn new(binary: &Path, folder: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            variables: vec![("POSTHASTE_LOG__LEVEL".to_owned(), "warn".to_owned())],
            arguments: Vec::new(),
        }
    }

    /// The same with a further variable.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// The same with further variables.
    pub(crate) fn with_all(mut self, variables: &[(String, String)]) -> Self {
        self.variables.extend_from_slice(variables);
        self
    }

    /// The same on data of its own.
    pub(crate) fn within(&self, folder: &str) -> Self {
        Self {
            folder: self.folder.join(folder),
            ..self.clone()
        }
    }

    /// The same in one role only.
    pub(crate) fn in_role(mut self, role: &'static str) -> Self {
        self.arguments.extend(["--role", role]);
        self
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn ready(&self) -> anyhow::Result<Process> {
        std::fs::create_dir_all(&self.folder)?;
        let log_file = self.folder.join("bench.log");
        let log = std::fs::File::create(&log_file)?;
        let address = free_address()?;
        let mut command = Command::new(&self.binary);
        command
            .env_clear()
            .args(["serve", "--listen", &address, "--data-dir"])
            .arg(&self.folder)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true);
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Later ones count: a caller may want another log.
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let began = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        while !is_ready(&address).await {
            if let Some(status) = child.try_wait()? {
                let said = std::fs::read_to_string(&log_file).unwrap_or_default();
                bail!("the server ended before it was ready ({status}): {said}");
            }
            if began.elapsed() > PATIENCE {
                bail!("the server is not ready after {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Process {
            child,
            address,
            ready_after: began.elapsed(),
        })
    }
}

impl Process {
    /// Its process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// What it has resident, in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        memory_mib(self.id()?, "VmRSS:")
    }

    /// The most it ever had resident, in MiB.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<f64> {
        memory_mib(self.id()?, "VmHWM:")
    }

    /// Asks it to end, and waits until what is under way is over.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(id) = self.child.id() {
            // The shell has `kill` built in; a program of that name may be missing.
            let asked = Command::new("sh")
                .args(["-c", &format!("kill -TERM {id}")])
                .status();
            asked.await?;
        }
        if tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .is_err()
        {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Ends it without a warning.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Nobody is given this port in the next moment: it was handed out just now.
fn free_address() -> anyhow::Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

async fn is_ready(address: &str) -> bool {
    let asked = async {
        let mut client = Client::connect(address).await?;
        client.get("/readyz").await
    };
    matches!(asked.await, Ok((200, _)))
}
