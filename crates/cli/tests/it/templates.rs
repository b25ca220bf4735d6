//! Templates on the real binary: pushed at the terminal, sent through the API, rendered at the
//! mail server, retried by their own schedule.

use std::path::Path;

use posthaste_sink::Sink;
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, get, run, submit, until, verify};

on_every_backend! {
    a_pushed_template_is_sent_and_retried_by_its_own_schedule,
    a_template_is_tried_out_and_changed_at_the_terminal,
}

const ORDER: &str = r#"
description = "Sent when an order was placed"
from = "Shop <shop@example.org>"
subject = "Order {{ number }}"
text_file = "order.txt"
html = "<p>Hello {{ name }}</p>"
priority = "high"

[retry_policy]
max_attempts = 4
backoff = { schedule = ["1s", "2s"] }

[sample]
number = 7
name = "Ann"
"#;

/// Writes the template into a folder and gives the path of its file.
fn written(folder: &Path) -> String {
    let file = folder.join("order.toml");
    std::fs::write(&file, ORDER).unwrap();
    std::fs::write(folder.join("order.txt"), "Hello {{ name }}, thank you.\n").unwrap();
    file.to_str().unwrap().to_owned()
}

/// Runs a command that succeeds, and gives what it said.
async fn told(server: &Posthaste, arguments: &[&str]) -> String {
    let output = run(server, arguments).await;
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    output.stdout
}

fn received(sink: &Sink) -> String {
    let messages = sink.messages();
    String::from_utf8_lossy(&messages[0].bytes).into_owned()
}

async fn a_pushed_template_is_sent_and_retried_by_its_own_schedule(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let folder = tempfile::tempdir().unwrap();
    let said = told(&server, &["templates", "push", &written(folder.path())]).await;
    assert_eq!(
        said,
        "Template order is version 1 now.\nRetries: own: 4 attempts, dead after about 5 s\n"
    );

    let request = json!({
        "to": "fail2@example.org", "template": "order",
        "variables": {"number": 4711, "name": "Zoë & Bob"},
    });
    let id = submit(&server, &request).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(sent["template"], "order");
    assert_eq!(sent["max_attempts"], 4);
    assert_eq!(sent["priority"], "high");
    let attempts = sent["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    for (before, delay) in [(0, 1.0), (1, 2.0)] {
        let waited =
            time(&attempts[before + 1]["started_at"]) - time(&attempts[before]["finished_at"]);
        assert!(waited >= delay, "{waited} s instead of {delay}");
    }
    let mail = received(&sink);
    assert!(mail.contains("Subject: Order 4711"), "{mail}");
    assert!(mail.contains("&amp; Bob</p>"), "{mail}");
    assert!(mail.contains("From: \"Shop\" <shop@example.org>"), "{mail}");
    verify(&server).await;
}

fn time(value: &Value) -> f64 {
    let at: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
    at.as_microsecond() as f64 / 1e6
}

async fn a_template_is_tried_out_and_changed_at_the_terminal(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());

    let preview = told(&server, &["templates", "preview", &file]).await;
    let head = "From: Shop <shop@example.org>\nSubject: Order 7\n";
    assert!(preview.starts_with(head), "{preview}");
    assert!(preview.contains("Hello Ann, thank you."), "{preview}");
    let unknown = run(&server, &["templates", "show", "order"]).await;
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);

    told(&server, &["templates", "push", &file]).await;
    let again = told(&server, &["templates", "push", &file]).await;
    let same = "Template order says so already, in version 1.\n";
    assert!(again.starts_with(same), "{again}");
    let changed = [
        "templates",
        "push",
        "order",
        "--subject",
        "Yours: {{ number }}",
        "--json",
    ];
    let changed: Value = serde_json::from_str(&told(&server, &changed).await).unwrap();
    assert_eq!(
        changed,
        json!({"name": "order", "version": 2, "result": "saved"})
    );
    let stale = [
        "templates",
        "push",
        "order",
        "--subject",
        "Late",
        "--based-on",
        "1",
    ];
    let stale = run(&server, &stale).await;
    assert_eq!(stale.code, 1);
    assert!(stale.stderr.contains("version 2"), "{}", stale.stderr);
    let wrong = run(
        &server,
        &["templates", "push", "order", "--subject", "{{ number"],
    )
    .await;
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("subject line 1"), "{}", wrong.stderr);

    let given = [
        "templates",
        "preview",
        "order",
        "--var",
        "number=8",
        "--var",
        "name=<Bob>",
        "--json",
    ];
    let given: Value = serde_json::from_str(&told(&server, &given).await).unwrap();
    assert_eq!(given["subject"], "Yours: 8");
    assert_eq!(given["html"], "<p>Hello &lt;Bob&gt;</p>");
    let missing = run(
        &server,
        &["templates", "preview", "order", "--var", "number=8"],
    )
    .await;
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("variables.name is missing"),
        "{}",
        missing.stderr
    );

    let list = told(&server, &["templates", "list"]).await;
    assert!(list.contains("order  2        own, 4 attempts"), "{list}");
    let first = told(
        &server,
        &["templates", "show", "order", "--version", "1", "--json"],
    )
    .await;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["subject"], "Order {{ number }}");
    assert_eq!(first["variables"], json!(["name", "number"]));

    let send = [
        "send",
        "--to",
        "ann@example.org",
        "--template",
        "order",
        "--var",
        "number=9",
        "--var",
        "name=Ann",
    ];
    let id = told(&server, &send).await;
    until(&server, id.trim(), "sent").await;
    assert!(received(&sink).contains("Subject: Yours: 9"));

    told(&server, &["templates", "delete", "order"]).await;
    assert_eq!(get(&server, "/v1/templates/order").await.status, 404);
    let near = run(&server, &["templates", "delete", "order"]).await;
    assert_eq!(near.code, 4);
}

#[tokio::test]
async fn a_policy_is_shown_as_a_timeline() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let start = ["--start", "2026-11-16T10:00:00Z"];
    let shown = told(
        &server,
        &[&["policy", "preview", "notification"], &start[..]].concat(),
    )
    .await;
    let expected = "\
notification: 3 attempts, up to 30 s later each

ATTEMPT  AFTER               AT (UTC)
1        at once             2026-11-16 10:00:00
2        1 min – 1 min 30 s  2026-11-16 10:01:00 – 10:01:30
3        6 min – 7 min       2026-11-16 10:06:00 – 10:07:00
";
    assert!(shown.starts_with(expected), "{shown}");
    let inline = ["policy", "preview", "outbox", "--inline"];
    let shown = told(&server, &[&inline[..], &start[..]].concat()).await;
    let expected = "\
outbox: 5 attempts

ATTEMPT  AFTER        AT (UTC)
1        30 s         2026-11-16 10:00:30
2        1 min 30 s   2026-11-16 10:01:30
3        3 min 30 s   2026-11-16 10:03:30
4        7 min 30 s   2026-11-16 10:07:30
5        15 min 30 s  2026-11-16 10:15:30
";
    assert!(shown.starts_with(expected), "{shown}");
    let own = [
        "policy",
        "preview",
        "--attempts",
        "2",
        "--schedule",
        "10s,1m",
        "--json",
    ];
    let own = told(&server, &[&own[..], &start[..]].concat()).await;
    let last: Value = serde_json::from_str(own.lines().last().unwrap()).unwrap();
    assert_eq!(last["number"], 2);
    assert_eq!(last["latest"], "2026-11-16T10:00:10Z");
    let unknown = run(&server, &["policy", "preview", "emial"]).await;
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("is not one of: email"),
        "{}",
        unknown.stderr
    );
}

#[tokio::test]
async fn a_message_is_retried_after_a_delay_and_is_no_email() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let shown = told(&server, &["policy", "preview", "message"]).await;
    assert!(shown.starts_with("message: 3 retries"), "{shown}");
    assert!(shown.contains("RETRY  AFTER"), "{shown}");
    assert!(!shown.contains("now  "), "{shown}");
    assert!(!shown.contains("mail"), "{shown}");
}

#[tokio::test]
async fn bodies_are_given_as_flags_or_files_and_an_empty_one_is_none() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let empty = server.data_dir().join("empty.txt");
    std::fs::write(&empty, "\n").unwrap();
    let empty = empty.to_str().unwrap();
    let push = |flags: &[&'static str]| {
        let named = ["templates", "push", "hello", "--policy", "notification"];
        [&named[..], flags].concat()
    };
    let bodiless = [&push(&["--subject", "s"])[..], &["--text-file", empty]].concat();
    let output = run(&server, &bodiless).await;
    assert_eq!(output.code, 2, "{}", output.stdout);
    assert!(output.stderr.contains("text"), "{}", output.stderr);
    let both = [&push(&["--text", "x"])[..], &["--text-file", empty]].concat();
    assert_eq!(run(&server, &both).await.code, 2);

    let flags = ["--subject", "s", "--text", "Hi", "--html", "<p>Hi</p>"];
    let said = told(&server, &push(&flags)).await;
    let retries = "notification: 3 attempts, dead after about 7 min\n";
    assert!(said.ends_with(retries), "{said}");
    told(&server, &[&push(&[])[..], &["--html-file", empty]].concat()).await;
    let shown = told(&server, &["templates", "show", "hello"]).await;
    assert!(shown.contains(retries), "{shown}");
    assert!(shown.contains("--- Text\nHi"), "{shown}");
    assert!(!shown.contains("HTML"), "{shown}");
}
