//! The invitation in an email, as a reader sees it that is not ours: Python's own email package and
//! icalendar.

use std::io::Write as _;
use std::process::{Command, Stdio};

use posthaste_sink::ReceivedMessage;
use serde_json::Value;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/posthaste/tests/python/invitation_reader.py"
);

/// What it reads. It fails if anything in the message is not as the standards say.
pub(crate) fn invitation_in(message: &ReceivedMessage) -> Value {
    let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
        panic!("TEST_PYTHON is not set: run ./scripts/test, or name a Python that has icalendar")
    });
    let mut child = Command::new(python)
        .args([SCRIPT, "message"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&message.bytes).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the message cannot be read");
    let mut read: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read["defects"], serde_json::json!([]));
    assert_eq!(read["file"]["is_same"], true);
    let object = read["object"].take();
    assert_eq!(object["errors"], serde_json::json!([]));
    assert_eq!(read["invitation"]["method"], object["method"]);
    object
}
