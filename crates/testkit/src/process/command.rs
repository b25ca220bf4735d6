//! The command line beside the running server.

use std::io::Write as _;
use std::process::Stdio;

use super::signal::send;
use super::{DEADLINE, Posthaste};

impl Posthaste {
    /// Runs a command such as `["emails", "list", "--json"]` on the same data directory and in
    /// the same environment. Gives exit code, stdout and stderr; the code of a process that a
    /// signal ended is -1.
    pub async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.run_with_input(arguments, "").await
    }

    /// The same, with this on its standard input.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut command = self.command();
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => self.fail(&format!("cannot run {arguments:?}: {error}")),
        };
        if let Some(mut stdin) = child.stdin.take() {
            // In vain if it does not read.
            let _ = stdin.write_all(input.as_bytes());
        }
        let pid = child.id();
        let running = tokio::task::spawn_blocking(move || child.wait_with_output());
        let output = match tokio::time::timeout(DEADLINE, running).await {
            Ok(Ok(Ok(output))) => output,
            Ok(failed) => self.fail(&format!("cannot wait for {arguments:?}: {failed:?}")),
            // For example a server that was to be refused, and serves.
            Err(_) => {
                send("KILL", pid);
                self.fail(&format!("{arguments:?} does not end"))
            }
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}
