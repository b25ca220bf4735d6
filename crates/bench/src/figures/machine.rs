//! Where it was measured, and on which commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// What the processor calls itself.
    pub(crate) processor: String,
    /// How many cores there are.
    pub(crate) cores: usize,
    /// Memory in GiB.
    pub(crate) memory_gib: f64,
    /// The version of the kernel.
    pub(crate) kernel: String,
}

impl Machine {
    /// This one, as far as it says.
    pub(crate) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()));
            value.unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib: f64 = memory
            .split_whitespace()
            .next()
            .and_then(|kib| kib.parse().ok())
            .unwrap_or_default();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory_kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// For people, in one line.
    pub(crate) fn text(&self) -> String {
        let Self {
            processor,
            cores,
            memory_gib,
            kernel,
        } = self;
        format!("{cores} cores ({processor}), {memory_gib} GiB, Linux {kernel}")
    }
}

/// The commit of the repository that this was built from, if git knows; with a `+` if files differ
/// from it.
pub(super) fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")))
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|changes| !changes.is_empty());
    Some(format!("{commit}{}", if is_changed { "+" } else { "" }))
}
