//! A reader that is not ours: `tests/python/invitation_reader.py`, with Python's own email package
//! and icalendar.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/python/invitation_reader.py"
);

/// What it reads in a whole message.
pub(crate) fn read_message(message: &[u8]) -> Value {
    run("message", message)
}

/// What it reads in calendar objects.
pub(crate) fn read_objects(objects: &[String]) -> Vec<Value> {
    let answer = run("objects", json!(objects).to_string().as_bytes());
    answer.as_array().unwrap().clone()
}

fn run(command: &str, input: &[u8]) -> Value {
    let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
        panic!("TEST_PYTHON is not set: run ./scripts/test, or name a Python that has icalendar")
    });
    let mut child = Command::new(python)
        .args([SCRIPT, command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It reads everything before it answers. In vain if it ended with an error, which is told then.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}
