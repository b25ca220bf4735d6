//! One process of the cluster, started again for ever.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;

use super::journal::Journal;
use super::life::{Death, Director, Life};

/// A process that ended by itself is started again after this time.
const REST: Duration = Duration::from_secs(1);
/// How often to look whether it is frozen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
        self.command_under(&[])
    }

    /// The same, started by another program.
    fn command_under(&self, under: &[String]) -> Command {
        let mut command = match under.split_first() {
            None => Command::new(&self.binary),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.binary);
                command
            }
        };
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
    director: Arc<dyn Director>,
    kill: Notify,
    /// Whether somebody asked it to end.
    is_asked_to_end: AtomicBool,
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
        director: Arc<dyn Director>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: format!("{role}-{number}"),
            role,
            recipe,
            journal,
            director,
            kill: Notify::new(),
            is_asked_to_end: AtomicBool::new(false),
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

    /// Asks it to end; it is started again when it has. The answer is whether it was there.
    pub(crate) fn terminate(&self) -> bool {
        let Some(pid) = *self.pid() else {
            return false;
        };
        self.is_asked_to_end.store(true, Ordering::SeqCst);
        send("TERM", pid)
    }

    /// Whether somebody asked this life to end.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.is_asked_to_end.load(Ordering::SeqCst)
    }

    /// Its process id, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        *self.pid()
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
            let life = self.director.life(&self);
            self.is_asked_to_end.store(false, Ordering::SeqCst);
            let mut child = self.spawn(&life)?;
            *self.pid() = child.id();
            let output = child.stdout.take().context("no output")?;
            let member = Arc::clone(&self);
            let following = tokio::spawn(async move { member.follow(output).await });
            let death = tokio::select! {
                status = child.wait() => Death::ByItself(status?),
                () = self.kill.notified() => Death::Killed,
                () = lived(life.limit) => Death::Limit,
                () = self.thaw_if_frozen(life.thaw_after) => Death::Killed,
            };
            if !matches!(death, Death::ByItself(_)) {
                child.kill().await?;
            }
            *self.pid() = None;
            following.abort();
            // Nothing sets it again after this.
            let _ = following.await;
            self.set_address(None);
            let is_meant = self.director.over(&self, &death);
            if let (false, Death::ByItself(status)) = (is_meant, death) {
                self.note_end(status);
                tokio::time::sleep(REST).await;
            }
        }
    }

    /// Lets it go on when it has been frozen for a while. Never ends.
    async fn thaw_if_frozen(&self, after: Option<Duration>) {
        let (Some(after), Some(pid)) = (after, *self.pid()) else {
            return std::future::pending().await;
        };
        while !is_stopped(pid) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.journal
            .line(&format!("fault: {} froze at a failpoint", self.name));
        self.director.froze(self);
        tokio::time::sleep(after).await;
        self.thaw(pid);
        std::future::pending().await
    }

    fn spawn(&self, life: &Life) -> anyhow::Result<Child> {
        let data = self.recipe.folder.join(&self.name);
        std::fs::create_dir_all(&data)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let mut command = self.recipe.command_under(&life.under);
        command
            .envs(life.variables.iter().map(|(name, value)| (name, value)))
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
        let started = Instant::now();
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some((_, rest)) = line.split_once("http://")
                && self.address().is_none()
            {
                self.set_address(rest.split('/').next().map(str::to_owned));
                self.director.listens(self, started.elapsed());
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

/// Resolves when something has lived for so long.
async fn lived(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Whether a process is frozen, by the kernel's word. Its name may contain anything, so the state
/// is what follows the last bracket.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    state.trim_start().starts_with('T')
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
