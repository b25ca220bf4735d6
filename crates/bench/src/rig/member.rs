//! One process of the cluster, started again for ever.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;

use super::journal::Journal;

/// A process that ended by itself is started again after this time.
const REST: Duration = Duration::from_secs(1);

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Everything in one process.
    Whole,
    Api,
    Sender,
    Scheduler,
    Messages,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "whole",
            Self::Api => "api",
            Self::Sender => "sender",
            Self::Scheduler => "scheduler",
            Self::Messages => "messages",
        })
    }
}

/// How every process is started.
pub(crate) struct Recipe {
    pub(crate) binary: PathBuf,
    pub(crate) variables: Vec<(String, String)>,
    /// Where logs and data directories are.
    pub(crate) folder: PathBuf,
}

impl Recipe {
    /// The binary with nothing of the developer's own configuration.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Has the binary audit the stored state. The answer is what it complains about, if anything.
    pub(crate) async fn verify(&self, ledger: Option<&Path>) -> anyhow::Result<Option<String>> {
        let mut command = self.command();
        command.arg("verify");
        if let Some(ledger) = ledger {
            command.arg("--ledger").arg(ledger);
        }
        let output = command.output().await?;
        if output.status.success() {
            return Ok(None);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        Ok(Some(format!(
            "posthaste verify: {}\n{}\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )))
    }
}

/// A process that ended without being killed.
pub(crate) struct Ended {
    pub(crate) at: Instant,
    pub(crate) what: String,
}

/// One process of the cluster.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) role: Role,
    recipe: Arc<Recipe>,
    journal: Arc<Journal>,
    kill: Notify,
    /// Its process id while it runs.
    pid: Mutex<Option<u32>>,
    address: Mutex<Option<String>>,
    ended: Mutex<Vec<Ended>>,
}

impl Member {
    pub(crate) fn new(
        role: Role,
        number: u64,
        recipe: Arc<Recipe>,
        journal: Arc<Journal>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: format!("{role}-{number}"),
            role,
            recipe,
            journal,
            kill: Notify::new(),
            pid: Mutex::default(),
            address: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    /// Where it listens, if it does right now.
    pub(crate) fn address(&self) -> Option<String> {
        let address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        address.clone()
    }

    fn set_address(&self, address: Option<String>) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Kills it without a warning; it is started again at once.
    pub(crate) fn kill9(&self) {
        self.kill.notify_one();
    }

    /// Stops it in the middle of whatever it does, as a paused machine would. The answer is
    /// whether it was there; [`Member::thaw`] lets it go on.
    pub(crate) fn freeze(&self) -> Option<u32> {
        let pid = (*self.pid())?;
        send("STOP", pid).then_some(pid)
    }

    /// Lets it go on, if it still is the same process.
    pub(crate) fn thaw(&self, pid: u32) {
        if *self.pid() == Some(pid) {
            send("CONT", pid);
        }
    }

    fn pid(&self) -> MutexGuard<'_, Option<u32>> {
        self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it ended by itself.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.recipe.folder.join(format!("{}.log", self.name))
    }

    /// Runs it until dropped, which kills it.
    pub(crate) async fn keep_running(self: Arc<Self>) -> anyhow::Result<()> {
        loop {
            let mut child = self.spawn()?;
            *self.pid() = child.id();
            let output = child.stdout.take().context("no output")?;
            let member = Arc::clone(&self);
            let following = tokio::spawn(async move { member.follow(output).await });
            let by_itself = tokio::select! {
                status = child.wait() => Some(status?),
                () = self.kill.notified() => {
                    child.kill().await?;
                    None
                }
            };
            *self.pid() = None;
            following.abort();
            // Nothing sets it again after this.
            let _ = following.await;
            self.set_address(None);
            if let Some(status) = by_itself {
                self.note_end(status);
                tokio::time::sleep(REST).await;
            }
        }
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let data = self.recipe.folder.join(&self.name);
        std::fs::create_dir_all(&data)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let mut command = self.recipe.command();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(log);
        if self.role != Role::Whole {
            command.args(["--role", &self.role.to_string()]);
        }
        command
            .spawn()
            .with_context(|| format!("cannot start {}", self.recipe.binary.display()))
    }

    /// Reads where it listens, and goes on reading: a closed pipe is not what is tested.
    async fn follow(&self, output: ChildStdout) {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some((_, rest)) = line.split_once("http://")
                && self.address().is_none()
            {
                self.set_address(rest.split('/').next().map(str::to_owned));
            }
        }
    }

    fn note_end(&self, status: ExitStatus) {
        let what = format!(
            "{} ended by itself ({status}): {}",
            self.name,
            last_line(&self.log_file())
        );
        self.journal.line(&what);
        let at = Instant::now();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push(Ended { at, what });
    }
}

/// Sends a signal. The shell has `kill` built in; a program of that name may be missing.
pub(crate) fn send(signal: &str, pid: u32) -> bool {
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .status();
    status.is_ok_and(|status| status.success())
}

/// The last line of a log, for a message.
fn last_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim_end()
        .lines()
        .next_back()
        .unwrap_or("it said nothing")
        .to_owned()
}
