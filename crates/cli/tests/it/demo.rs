//! `posthaste demo` shows what it promises, and leaves nothing behind.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// As many lines about how things are must be enough. One comes every second.
const PATIENCE: usize = 120;

struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(["--json", "demo"])
            .args(arguments)
            // Nobody's real database is touched, whatever the environment says.
            .env("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
            .env("SMTP_URL", "smtp://127.0.0.1:1")
            .env("POSTHASTE_NO_SUCH__OPTION", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("it goes on").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn end(mut self) {
        let kill = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        // Whatever it still says is read, so that it is not held up.
        for line in self.lines.by_ref() {
            line.unwrap();
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // In vain if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn groups(folder: &Path) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["--json", "--config"])
        .arg(folder.join("demo.toml"))
        .args(["dead", "groups"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_demo_shows_sent_retrying_and_dead_mail_in_groups_and_an_outage() {
    let mut demo = Demo::start(&["--rate", "20"]);
    let first = demo.next();
    let dashboard = first["dashboard"].as_str().unwrap();
    assert!(dashboard.starts_with("http://127.0.0.1:"), "{dashboard}");
    let folder = Path::new(first["folder"].as_str().unwrap()).to_owned();
    let (mut retried, mut away, mut back) = (false, false, false);
    let seen = (0..PATIENCE).any(|_| {
        let now = demo.next();
        let count = |what: &str| now[what].as_u64().unwrap();
        retried |= count("retrying") > 0;
        away |= now["outage"] == true;
        back |= away && now["outage"] == false;
        retried && back && count("sent") > 100 && count("uncertain") > 0 && count("groups") >= 2
    });
    assert!(seen, "retried {retried}, away {away}, back {back}");
    assert!(groups(&folder).len() >= 2);
    demo.end();
    assert!(!folder.exists(), "nothing is left behind");
}

#[test]
fn a_demo_refuses_a_folder_with_real_mail() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("posthaste.db"), "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .arg("demo")
        .arg("--data-dir")
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("not a demo's"), "{error}");
}
