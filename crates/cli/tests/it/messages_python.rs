//! A client that is not ours: `tests/python/dead_letter_handler.py`, with pika and protobuf.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_testkit::Queues;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/python/dead_letter_handler.py"
);
const PROTO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../broker/proto/retry_message.proto"
);

/// Bytes as the client reads and writes them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A `RetryMessage` of a message that failed for the first time, by its fields.
pub(crate) fn fields(queue: &str, payload: &[u8]) -> Value {
    json!({
        "message_id": uuid::Uuid::now_v7().to_string(),
        "original_payload": base64(payload),
        "original_queue": queue,
        "error_reason": "upstream said 503",
    })
}

/// The id in the fields of a `RetryMessage`.
pub(crate) fn id_of(fields: &Value) -> &str {
    fields["message_id"].as_str().unwrap()
}

/// A handler of dead letters that uses these queues.
pub(crate) struct Handler<'a>(pub(crate) &'a Queues);

impl Handler<'_> {
    /// Hands in messages, each with nothing about itself but its fields.
    pub(crate) async fn hand_in(&self, messages: &[Value]) {
        let entry = |message: &Value| json!({ "message": message });
        self.hand_in_entries(messages.iter().map(entry).collect())
            .await;
    }

    /// Hands in entries with `message`, `properties` and `raw`.
    pub(crate) async fn hand_in_entries(&self, entries: Vec<Value>) {
        let count = entries.len();
        let arguments = ["--queue", &self.0.messages()];
        let answer = self.run("hand-in", &arguments, &entries.into()).await;
        assert_eq!(answer, count);
    }

    /// Takes so many messages from a queue, waiting for them.
    pub(crate) async fn take(&self, queue: &str, count: usize) -> Vec<Value> {
        let arguments = ["--queue", queue, "--count", &count.to_string()];
        let mut taken = self.run("take", &arguments, &Value::Null).await;
        std::mem::take(taken.as_array_mut().unwrap())
    }

    /// Lets a message fail until it is in review. Either the count of each copy is handed in with
    /// its failure, or always 0. Gives the copies that came back, and the one in review.
    pub(crate) async fn handle(&self, message: &Value, counts: bool) -> (Vec<Value>, Value) {
        let (retry, review) = (self.0.messages(), self.0.review());
        let queue = message["original_queue"].as_str().unwrap();
        let mut arguments = vec!["--queue", queue];
        arguments.extend(["--retry-queue", &retry, "--review-queue", &review]);
        arguments.extend(counts.then_some("--counts"));
        let mut answer = self.run("handle", &arguments, message).await;
        let copies = std::mem::take(answer["copies"].as_array_mut().unwrap());
        assert!(answer["review"][0].is_object(), "not in review: {copies:?}");
        (copies, answer["review"][0].take())
    }

    /// Runs a command with this input, and gives its answer.
    async fn run(&self, command: &str, arguments: &[&str], input: &Value) -> Value {
        let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
            panic!(
                "TEST_PYTHON is not set: run ./scripts/test, or name a Python that has pika, \
                 protobuf and grpcio-tools"
            )
        });
        let mut process = Command::new(python);
        process
            .args([SCRIPT, "--proto", PROTO, "--url", self.0.url(), command])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_string();
        let running = tokio::task::spawn_blocking(move || {
            let mut child = process.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            // In vain if it ended with an error, which is told then.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output().unwrap()
        });
        let output = running.await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
