//! Who counts what was delivered: Postfix's `smtp-sink`, the same for everyone, or our own sink if
//! that is not there.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use posthaste_sink::{Sink, SinkConfig};
use tempfile::NamedTempFile;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::processor::Group;

const PROGRAM: &str = "smtp-sink";
/// How often the counter is looked at.
const POLL: Duration = Duration::from_millis(10);
/// When a server that was started must listen.
const READY: Duration = Duration::from_secs(20);
/// Longer than the last counter in its output.
const TAIL: u64 = 200;

/// Which one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// Postfix's.
    Postfix,
    /// Our own, which works more for each message.
    Own,
}

impl Judge {
    /// Postfix's, or our own if that is not installed and nobody else is measured.
    pub(crate) fn choose(others_are_measured: bool) -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<_> = std::env::split_paths(&path).collect();
        folders.push("/usr/sbin".into());
        if folders.iter().any(|folder| folder.join(PROGRAM).is_file()) {
            return Ok(Self::Postfix);
        }
        ensure!(
            !others_are_measured,
            "{PROGRAM} is not there, and everyone must have the same one: apt-get install postfix"
        );
        Ok(Self::Own)
    }

    /// For the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postfix => "smtp-sink of Postfix",
            Self::Own => "posthaste-sink, for want of smtp-sink of Postfix",
        }
    }

    /// Starts one that has counted nothing yet.
    pub(crate) async fn start(self) -> anyhow::Result<Arbiter> {
        match self {
            Self::Own => Ok(Arbiter::Own(Sink::start(SinkConfig::default()).await?)),
            Self::Postfix => {
                let memory = Path::new("/dev/shm");
                let folder = match memory.is_dir() {
                    true => memory.to_owned(),
                    false => std::env::temp_dir(),
                };
                let counter = NamedTempFile::with_prefix_in("posthaste-bench-sink-", folder)?;
                let port = free_port()?;
                let mut command = Command::new(PROGRAM);
                // It does not run as root.
                if std::fs::metadata("/proc/self")?.uid() == 0 {
                    command.args(["-u", "nobody"]);
                }
                let child = command
                    .args(["-c", &format!("127.0.0.1:{port}"), "1024"])
                    .stdin(Stdio::null())
                    .stdout(counter.reopen()?)
                    .stderr(Stdio::null())
                    .process_group(0)
                    .kill_on_drop(true)
                    .spawn()
                    .with_context(|| format!("cannot start {PROGRAM}"))?;
                listening(port).await?;
                Ok(Arbiter::Postfix {
                    child,
                    counter,
                    port,
                })
            }
        }
    }
}

/// A sink that counts.
pub(crate) enum Arbiter {
    /// A process; its running counter goes to a file in memory.
    Postfix {
        child: Child,
        counter: NamedTempFile,
        port: u16,
    },
    /// In this process.
    Own(Sink),
}

impl Arbiter {
    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Postfix { port, .. } => *port,
            Self::Own(sink) => sink.addr().port(),
        }
    }

    /// Its process, if it is one of its own.
    pub(crate) fn group(&self) -> Option<Group> {
        match self {
            Self::Postfix { child, .. } => child.id().map(|id| Group::alone("sink", id)),
            Self::Own(_) => None,
        }
    }

    /// How many messages it has answered 250.
    pub(crate) fn count(&self) -> anyhow::Result<u64> {
        match self {
            Self::Own(sink) => Ok(sink.accepted()),
            Self::Postfix { counter, .. } => {
                let mut file = counter.reopen()?;
                let size = file.metadata()?.len();
                file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
                let mut text = Vec::new();
                file.read_to_end(&mut text)?;
                Ok(last_count(&String::from_utf8_lossy(&text)))
            }
        }
    }

    /// Waits until it has counted so many; the time of that. Fails after a while.
    pub(crate) async fn wait(&self, count: u64, limit: Duration) -> anyhow::Result<Instant> {
        let give_up = Instant::now() + limit;
        loop {
            let seen = self.count()?;
            let now = Instant::now();
            if seen >= count {
                return Ok(now);
            }
            ensure!(
                now < give_up,
                "only {seen} of {count} arrived within {} s",
                limit.as_secs()
            );
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The last complete counter of `sess=1 quit=0 mesg=7` lines that end with a carriage return.
fn last_count(text: &str) -> u64 {
    let Some((complete, _)) = text.rsplit_once('\r') else {
        return 0;
    };
    let counts = complete.rsplit('\r').filter_map(|line| {
        let count = line.split("mesg=").nth(1)?.split_whitespace().next()?;
        count.parse().ok()
    });
    counts.into_iter().next().unwrap_or(0)
}

/// A port that nobody uses, below those that the kernel gives to outgoing connections.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    for _ in 0..200 {
        let port = rand::random_range(20_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port was found")
}

/// Waits until somebody listens on a port.
pub(crate) async fn listening(port: u16) -> anyhow::Result<()> {
    let give_up = Instant::now() + READY;
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < give_up, "nobody listens on port {port}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_counter_counts() {
        assert_eq!(last_count(""), 0);
        assert_eq!(last_count("sess=1 quit=0 mesg=1"), 0);
        assert_eq!(
            last_count("sess=1 quit=0 mesg=12\rsess=1 quit=0 mesg=1"),
            12
        );
        assert_eq!(last_count("esg=3\rsess=16 quit=0 mesg=4711\r"), 4711);
    }
}
