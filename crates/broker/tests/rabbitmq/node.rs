//! A RabbitMQ of one's own, for what would disturb others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A private node, gone when it is dropped.
pub(crate) struct Node {
    folder: PathBuf,
}

impl Node {
    /// Starts a node. Takes some seconds.
    pub(crate) fn start() -> Self {
        let name = format!("posthaste-node-{}", uuid::Uuid::now_v7().simple());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let node = Self { folder };
        run(node.services(["start", "rabbitmq"]));
        node
    }

    pub(crate) fn url(&self) -> String {
        let port = self.file("rabbitmq.port");
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    }

    /// Says something to the node, with the environment it was started with.
    pub(crate) fn control<const N: usize>(&self, arguments: [&str; N]) {
        let node = format!("posthaste-{}@localhost", self.file("rabbitmq.port"));
        let mut command = Command::new("/usr/lib/rabbitmq/bin/rabbitmqctl");
        command
            .args(["--node", &node])
            .args(arguments)
            .env("HOME", self.file("rabbitmq.home"))
            .env("ERL_EPMD_PORT", self.file("epmd.port"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1");
        run(command);
    }

    fn services<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(root.join("scripts/services"));
        command
            .args(arguments)
            .env("POSTHASTE_SERVICES_DIR", &self.folder);
        command
    }

    fn file(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap();
        text.trim().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A test that fails should say why, not that this failed too.
        let _ = self.services(["stop"]).stderr(Stdio::null()).status();
    }
}

/// Runs a command that must not fail.
fn run(mut command: Command) {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
