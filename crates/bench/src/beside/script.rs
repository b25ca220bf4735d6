//! A script of the peers while it runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::rig::journal::Journal;
use crate::rig::member::send;

/// A script must have ended by then; the longest takes a few minutes.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// How long one that is interrupted may stop what it started.
const END: Duration = Duration::from_secs(20);

/// A process. Dropped before its end, it is interrupted, so that it stops what it started itself.
pub(super) struct Script {
    child: Child,
    is_over: bool,
}

impl Script {
    pub(super) fn start(
        folder: &Path,
        file: &str,
        arguments: &[&str],
        variables: &BTreeMap<&'static str, String>,
    ) -> anyhow::Result<Self> {
        let child = Command::new("python3")
            .arg("-u")
            .arg(folder.join(file))
            .args(arguments)
            .current_dir(folder)
            // They were copied from where nothing may be written.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot run python3")?;
        Ok(Self {
            child,
            is_over: false,
        })
    }

    /// Shows what it says until it ends. Fails if it does.
    pub(super) async fn finish(mut self, journal: &Journal) -> anyhow::Result<()> {
        let said = self.child.stdout.take().context("no output")?;
        let complaints = self.child.stderr.take().context("no output")?;
        let mut last = String::new();
        let show = async {
            let mut lines = BufReader::new(said).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                journal.line(line.trim_end());
            }
        };
        let remember = async {
            let mut lines = BufReader::new(complaints).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if !line.trim().is_empty() {
                    last = line;
                }
            }
        };
        let all = async { tokio::join!(show, remember, self.child.wait()) };
        let Ok(((), (), status)) = tokio::time::timeout(PATIENCE, all).await else {
            bail!("it still ran after {} minutes", PATIENCE.as_secs() / 60);
        };
        self.is_over = true;
        let status = status?;
        if !status.success() {
            bail!("{status}: {}", last.trim());
        }
        Ok(())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let Some(id) = self.child.id().filter(|_| !self.is_over) else {
            return;
        };
        send("INT", id);
        let give_up = Instant::now() + END;
        while Instant::now() < give_up {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // It does not listen. There is nobody to tell.
        let _ = self.child.start_kill();
    }
}
