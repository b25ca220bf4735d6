//! Starts the real binary on a free port with a throwaway database.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::rig::member::send;

/// When its broker must be reached.
const BROKER: Duration = Duration::from_secs(10);

/// A running server; it is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// `host:port`.
    pub(crate) address: String,
    _folder: TempDir,
}

/// The posthaste binary in the folder of this program.
pub(crate) fn beside_this_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("posthaste");
    anyhow::ensure!(
        path.is_file(),
        "{} is not there: build it, or name it with --binary",
        path.display()
    );
    Ok(path)
}

impl Server {
    /// Starts it with these arguments and environment variables, and waits until it listens and its
    /// broker, if it has one, takes tickets.
    pub(crate) async fn start(
        binary: &Path,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(binary);
        // Nothing of the developer's own configuration.
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .args(arguments)
            .env("POSTHASTE_LOG__LEVEL", "warn")
            .envs(
                environment
                    .iter()
                    .map(|(name, value)| (*name, value.as_str())),
            )
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = loop {
            let line = lines
                .next_line()
                .await?
                .context("the server ended before it was ready")?;
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap_or_default().to_owned();
            }
        };
        // Its output goes on being read: a closed pipe is not what is measured.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        await_broker(&address).await?;
        Ok(Self {
            child,
            address,
            _folder: folder,
        })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// Ends it without a warning.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn shut_down(mut self) -> anyhow::Result<()> {
        let id = self.id()?;
        anyhow::ensure!(send("TERM", id), "process {id} cannot be asked to end");
        self.child.wait().await?;
        Ok(())
    }
}

/// Emails that come before the broker is reached wait in the store for a scheduler, which the process
/// may not have. That is right, but not what is measured.
async fn await_broker(address: &str) -> anyhow::Result<()> {
    let give_up = Instant::now() + BROKER;
    loop {
        let (_, health) = Client::connect(address).await?.get("/readyz").await?;
        let health: Value = serde_json::from_str(&health)?;
        let degraded = health["degraded"].as_array();
        if !degraded.is_some_and(|all| all.iter().any(|one| one == "broker")) {
            return Ok(());
        }
        anyhow::ensure!(
            Instant::now() < give_up,
            "the server does not reach RabbitMQ"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The memory of a process by the kernel's name for it, in MiB.
pub(crate) fn memory_mib(id: u32, name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: f64 = kib.with_context(|| format!("no {name}"))?.parse()?;
    Ok(kib / 1024.0)
}
