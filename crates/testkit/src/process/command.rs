//! The command line beside the running server.

use super::Posthaste;

impl Posthaste {
    /// Runs a command such as `["emails", "list", "--json"]` on the same data directory and in
    /// the same environment. Gives exit code, stdout and stderr; the code of a process that a
    /// signal ended is -1.
    pub async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = self.command();
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(arguments);
        let running = tokio::task::spawn_blocking(move || command.output());
        let output = match running.await {
            Ok(Ok(output)) => output,
            failed => self.fail(&format!("cannot run {arguments:?}: {failed:?}")),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}
