//! A disk of our own, in memory, that can be full.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Stage;

/// How much it takes, when it is not full. Only what is used takes memory.
const SIZE_KIB: u64 = 4 * 1024 * 1024;
/// What is left when it is full: a moment's worth of writing.
const LEFT_KIB: u64 = 200;

/// A mounted file system; unmounted when dropped.
pub(in crate::torture) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one there. Fails for those who may not.
    pub(in crate::torture) fn mount(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let size = format!("size={SIZE_KIB}k");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    fn resize(&self, kib: u64) -> anyhow::Result<()> {
        let size = format!("remount,size={kib}k");
        run(Command::new("mount").args(["-o", &size]).arg(&self.folder))
    }

    /// Leaves so much room. More if, while we look, so much is written that it is not there any more.
    fn leave(&self, kib: u64) -> anyhow::Result<()> {
        let mut left = kib;
        while let Err(error) = self.resize(self.used_kib()? + left) {
            left *= 2;
            ensure!(left < SIZE_KIB, error);
        }
        Ok(())
    }

    /// How much is used.
    fn used_kib(&self) -> anyhow::Result<u64> {
        let output = Command::new("df")
            .args(["-k", "--output=used"])
            .arg(&self.folder)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let used = text.lines().nth(1).context("df says nothing")?;
        Ok(used.trim().parse()?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still has a file open there keeps it until then.
        let _ = run(Command::new("umount").arg("-l").arg(&self.folder));
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

impl Stage<'_> {
    /// Leaves next to no room for a while.
    pub(super) async fn fill_disk(&self, length: Duration) -> anyhow::Result<()> {
        let disk = self.disk.context("no disk of our own")?;
        disk.leave(LEFT_KIB)?;
        tokio::time::sleep(length).await;
        disk.resize(SIZE_KIB)
    }
}
