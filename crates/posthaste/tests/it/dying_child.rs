//! This very program once more, to be killed at a chosen moment.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::world::Own;

/// Names the database to the child.
const PLACE: &str = "POSTHASTE_TEST_PLACE";
/// And the schema there.
const SCHEMA: &str = "POSTHASTE_TEST_SCHEMA";
/// What the child does.
const DEED: &str = "POSTHASTE_TEST_DEED";

/// Starts this program again to run one ignored test, and kills it as soon as that is done.
pub(crate) fn die_after(test: &str, deed: &str, own: &Own) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(PLACE, own.place())
        .env(SCHEMA, own.schema())
        .env(DEED, deed)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let done = said.map_while(Result::ok).any(|line| line.contains("done"));
    // On Unix this is SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(done, "the child did not come so far");
}

/// In the child: the database and the schema there. `None` if this is no child.
pub(crate) fn place() -> Option<(String, String)> {
    Some((std::env::var(PLACE).ok()?, std::env::var(SCHEMA).ok()?))
}

/// In the child: what is to be done.
pub(crate) fn deed() -> String {
    std::env::var(DEED).unwrap_or_default()
}

/// Tells who started this process, and waits to be killed.
#[allow(clippy::print_stdout, reason = "that is who reads it")]
pub(crate) fn wait_to_be_killed() -> ! {
    println!("done");
    loop {
        std::thread::park();
    }
}
