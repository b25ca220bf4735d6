//! What is told while it runs, on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often progress is told when nobody looks at a bar.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const BAR_EVERY: Duration = Duration::from_millis(200);

/// Tells lines with a time, and progress.
pub(super) struct Journal {
    bars: MultiProgress,
    accepted: ProgressBar,
    delivered: ProgressBar,
    is_terminal: bool,
}

impl Journal {
    pub(super) fn new(emails: usize) -> Self {
        let bars = MultiProgress::new();
        let bar = |what: &'static str| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} ({per_sec})");
            let bar = ProgressBar::new(emails as u64)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(what);
            bars.add(bar)
        };
        Self {
            accepted: bar("accepted"),
            delivered: bar("copies delivered"),
            is_terminal: std::io::stderr().is_terminal(),
            bars,
        }
    }

    /// One line, with the time as the processes' own logs have it.
    pub(super) fn line(&self, text: &str) {
        let line = format!("{} {text}", time());
        if self.is_terminal {
            let _ = self.bars.println(line);
        } else {
            // Nobody may be reading; that is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Shows progress until dropped.
    pub(super) async fn show(&self, progress: impl Fn() -> (u64, u64)) {
        let mut before = (u64::MAX, u64::MAX);
        loop {
            let (accepted, delivered) = progress();
            self.accepted.set_position(accepted);
            self.delivered.set_position(delivered);
            if self.is_terminal {
                tokio::time::sleep(BAR_EVERY).await;
                continue;
            }
            if before != (accepted, delivered) {
                self.line(&format!("{accepted} accepted, {delivered} delivered"));
            }
            before = (accepted, delivered);
            tokio::time::sleep(PLAIN_EVERY).await;
        }
    }

    pub(super) fn clear(&self) {
        self.accepted.finish_and_clear();
        self.delivered.finish_and_clear();
    }
}

/// The time of day, UTC, in milliseconds.
pub(super) fn time() -> String {
    jiff::Timestamp::now().strftime("%H:%M:%S%.3f").to_string()
}
