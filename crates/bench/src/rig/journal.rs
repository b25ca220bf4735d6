//! What is told while it runs, on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often progress is told when nobody looks at a bar.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const BAR_EVERY: Duration = Duration::from_millis(200);

/// Tells lines with a time, and progress.
pub(crate) struct Journal {
    bars: MultiProgress,
    is_terminal: bool,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// A bar that is shown on a terminal only.
    pub(crate) fn bar(&self, length: u64, what: &'static str) -> ProgressBar {
        self.bars.add(progress_bar(length, what))
    }

    /// One line, with the time as the processes' own logs have it.
    pub(crate) fn line(&self, text: &str) {
        let line = format!("{} {text}", time());
        if self.is_terminal {
            let _ = self.bars.println(line);
        } else {
            // Nobody may be reading; that is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Shows how far two things are, of so many, until dropped.
    pub(crate) async fn show(
        &self,
        length: usize,
        names: [&'static str; 2],
        progress: impl Fn() -> [u64; 2],
    ) {
        let bars = names.map(|name| self.bar(length as u64, name));
        let mut before = None;
        loop {
            let now = progress();
            for (bar, position) in bars.iter().zip(now) {
                bar.set_position(position);
            }
            if self.is_terminal {
                tokio::time::sleep(BAR_EVERY).await;
                continue;
            }
            if before != Some(now) {
                let ([first, second], [a, b]) = (names, now);
                self.line(&format!("{a} {first}, {b} {second}"));
            }
            before = Some(now);
            tokio::time::sleep(PLAIN_EVERY).await;
        }
    }

    /// Takes all bars away.
    pub(crate) fn clear(&self) {
        // They are gone with the terminal, if that fails.
        let _ = self.bars.clear();
    }
}

/// A bar that shows progress on a terminal and nothing otherwise.
pub(crate) fn progress_bar(length: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} ({per_sec})");
    ProgressBar::new(length)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}

/// The time of day, UTC, in milliseconds.
pub(crate) fn time() -> String {
    jiff::Timestamp::now().strftime("%H:%M:%S%.3f").to_string()
}
