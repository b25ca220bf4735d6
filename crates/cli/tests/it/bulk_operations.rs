//! Many dead letters treated at once: paced, paused, over a restart, cancelled, by hand.

use posthaste_sink::{Mode, Sink};
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, get, metric, post, run, verify};

on_every_backend! {
    thousands_are_retried_once_over_a_pause_and_a_restart,
    a_crash_between_steps_treats_each_email_once,
    the_command_line_follows_a_server_and_does_without_one,
}

/// Hands in this many emails to someone.
async fn submit_many(server: &Posthaste, recipient: &str, count: usize) {
    let emails: Vec<Value> = (0..count).map(|_| email_to(recipient)).collect();
    for some in emails.chunks(1000) {
        let answer = post(server, "/v1/emails/batch", &json!({"emails": some})).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
    }
}

/// Waits until all are over and this many are dead letters.
async fn until_dead(server: &Posthaste, count: u64) {
    server
        .wait_for("/v1/stats", |stats| {
            is_quiet(stats) && stats["dead_letters"] == count
        })
        .await;
}

/// Whether nothing waits or is being sent.
fn is_quiet(stats: &Value) -> bool {
    let moving = ["pending", "sending", "failed", "retry_queued", "unknown"];
    moving
        .iter()
        .all(|status| stats["emails"][*status] == json!(0))
}

async fn begin(server: &Posthaste, wanted: &Value) -> String {
    let answer = post(server, "/v1/operations", wanted).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let id = answer.body["id"].as_str().unwrap();
    format!("/v1/operations/{id}")
}

async fn change(server: &Posthaste, operation: &str, change: &str) -> Value {
    let answer = post(server, &format!("{operation}/{change}"), &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn until_over(server: &Posthaste, operation: &str) -> Value {
    server
        .wait_for(operation, |shown| shown["status"] == "done")
        .await
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

async fn permanent_failures(server: &Posthaste) -> f64 {
    let name = r#"posthaste_attempts_total{transport="smtp",outcome="permanent"}"#;
    metric(server, name).await
}

/// A server whose first failure is the end, with leases that outlast a busy machine.
async fn sending(backend: &Backend, sink: &Sink) -> Posthaste {
    let server = backend.sending_to(sink).env("MAX_ATTEMPTS", "1");
    server.env("LEASE_SECONDS", "30").start().await
}

async fn thousands_are_retried_once_over_a_pause_and_a_restart(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = sending(backend, &sink).await;
    sink.set_mode(Mode::RejectAll);
    submit_many(&server, "ann@example.org", 1600).await;
    submit_many(&server, "reject@example.org", 400).await;
    until_dead(&server, 2000).await;
    sink.set_mode(Mode::Normal);
    let groups = get(&server, "/v1/dead-letters/groups").await.body;
    let counted = groups["data"].as_array().unwrap().iter();
    assert_eq!(
        counted.map(|group| number(&group["count"])).sum::<u64>(),
        2000
    );

    let wanted = json!({"action": "retry", "filter": {"to": "ann@example.org"},
        "rate_per_second": 500});
    let first = begin(&server, &wanted).await;
    server
        .wait_for(&first, |shown| number(&shown["done"]) >= 400)
        .await;
    let paused = change(&server, &first, "pause").await;
    assert_eq!(paused["status"], "paused", "half-way");
    let stats = server.wait_for("/v1/stats", is_quiet).await;
    assert_eq!(
        stats["emails"]["sent"], paused["done"],
        "no more and no less"
    );
    server.kill9();
    server.restart(&[]).await;
    assert_eq!(get(&server, &first).await.body, paused);
    change(&server, &first, "resume").await;
    let done = until_over(&server, &first).await;
    assert_eq!((&done["done"], &done["skipped"]), (&json!(1600), &json!(0)));
    until_dead(&server, 400).await;
    let stats = get(&server, "/v1/stats").await.body;
    assert_eq!(sink.accepted(), 1600, "{stats}");
    assert!(sink.duplicates().is_empty(), "{:?}", sink.duplicates());

    // What dies again is not tried again, and what was not treated stays as it was.
    let failures = permanent_failures(&server).await;
    let wanted = json!({"action": "retry", "filter": {}, "rate_per_second": 100});
    let second = begin(&server, &wanted).await;
    server
        .wait_for(&second, |shown| number(&shown["done"]) >= 50)
        .await;
    let cancelled = change(&server, &second, "cancel").await;
    assert_eq!(cancelled["status"], "cancelled");
    until_dead(&server, 400).await;
    let again = permanent_failures(&server).await - failures;
    assert_eq!(again, cancelled["done"].as_f64().unwrap());
    assert_eq!(get(&server, &second).await.body, cancelled);
    let audit = get(&server, "/v1/audit?limit=500").await.body;
    let actions = audit["data"].as_array().unwrap().iter().rev();
    let actions: Vec<_> = actions
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    let expected = [
        "operation_retry",
        "operation_pause",
        "operation_resume",
        "operation_done",
        "operation_retry",
        "operation_cancel",
    ];
    assert_eq!(actions, expected);
    verify(&server).await;
}

async fn a_crash_between_steps_treats_each_email_once(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = sending(backend, &sink).await;
    submit_many(&server, "reject@example.org", 60).await;
    until_dead(&server, 60).await;
    server.terminate().await;
    server
        .restart(&[("POSTHASTE_FAILPOINT", "bulk.after_step=kill@3")])
        .await;
    let wanted = json!({"action": "discard", "filter": {}, "rate_per_second": 100});
    let operation = begin(&server, &wanted).await;
    server.wait_for_exit().await;
    assert_eq!(
        backend.rows_by_status().await["discarded"],
        30,
        "three steps"
    );
    server.unset("POSTHASTE_FAILPOINT");
    server.restart(&[]).await;
    let over = until_over(&server, &operation).await;
    assert_eq!((&over["done"], &over["skipped"]), (&json!(60), &json!(0)));
    assert_eq!(backend.rows_by_status().await["discarded"], 60);
    verify(&server).await;
}

async fn the_command_line_follows_a_server_and_does_without_one(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = sending(backend, &sink).await;
    submit_many(&server, "fail1@example.org", 30).await;
    submit_many(&server, "reject@example.org", 10).await;
    until_dead(&server, 40).await;
    let which = ["--to", "fail1@example.org"];
    let dry = [&["dead", "retry", "--dry-run", "--json"][..], &which].concat();
    let counted: Value = serde_json::from_str(&run(&server, &dry).await.stdout).unwrap();
    assert_eq!(
        counted,
        json!({"dry_run": true, "action": "retry", "count": 30})
    );
    let paced = [&["dead", "retry", "--rate", "200", "--json"][..], &which].concat();
    let output = run(&server, &paced).await;
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let done: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (&done["status"], &done["done"]),
        (&json!("done"), &json!(30))
    );
    until_dead(&server, 10).await;
    assert_eq!(sink.accepted(), 30);
    assert!(sink.duplicates().is_empty());

    server.terminate().await;
    let output = run(&server, &["dead", "discard", "--all"]).await;
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert_eq!(output.stdout, "10 of 10 dead letters discarded.\n");
    assert_eq!(backend.rows_by_status().await["discarded"], 10);
    let listed = run(&server, &["operations", "list", "--json"]).await.stdout;
    assert_eq!(listed.lines().count(), 2);
    let id = done["id"].as_str().unwrap();
    for (arguments, code) in [
        (["operations", "show", id], 0),
        (["operations", "pause", id], 1),
        (
            ["operations", "show", "0195c5a0-0000-7000-8000-000000000000"],
            4,
        ),
        (["dead", "retry", "0195c5a0-0000-7000-8000-000000000000"], 4),
        (["dead", "retry", "--rate=0"], 2),
    ] {
        let output = run(&server, &arguments).await;
        assert_eq!(output.code, code, "{arguments:?} {}", output.stderr);
    }
    verify(&server).await;
}

#[tokio::test]
async fn the_command_line_says_what_a_retry_waits_for_and_makes_none_in_vain() {
    let backend = Backend::sqlite().await;
    let sink = a_sink().await;
    let mut server = sending(&backend, &sink).await;
    submit_many(&server, "reject@example.org", 3).await;
    until_dead(&server, 3).await;
    let wanted = json!({"action": "discard", "filter": {}, "rate_per_second": 1});
    let operation = begin(&server, &wanted).await;
    change(&server, &operation, "cancel").await;
    let id = operation.rsplit('/').next().unwrap();
    let resumed = run(&server, &["operations", "resume", id]).await;
    assert_eq!(resumed.code, 1);
    let hint = "posthaste dead discard\n";
    assert!(resumed.stderr.ends_with(hint), "{}", resumed.stderr);

    let made = async || {
        let listed = run(&server, &["operations", "list", "--json"]).await;
        let audit = run(&server, &["audit", "--json"]).await;
        listed.stdout + &audit.stdout
    };
    let before = made().await;
    let vain = run(&server, &["dead", "retry", "--fingerprint", "zzz"]).await;
    assert_eq!(vain.code, 0);
    assert_eq!(vain.stderr, "No dead letter matches.\n");
    assert_eq!(made().await, before);

    submit_many(&server, "reject@example.org", 2).await;
    let letters = ["dead", "list", "--limit", "2", "--json"];
    server.wait_for("/v1/stats", is_quiet).await;
    let listed = run(&server, &letters).await.stdout;
    let ids: Vec<String> = listed
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["id"]
                .as_str()
                .unwrap()
                .into()
        })
        .collect();
    let retry = ["dead", "retry", &ids[0], &ids[1]];
    let served = run(&server, &retry).await.stdout;
    assert_eq!(
        served,
        "2 of 2 dead letters are due again; a server sends them.\n"
    );
    server.wait_for("/v1/stats", is_quiet).await;
    server.terminate().await;
    let alone = run(&server, &retry).await.stdout;
    assert!(alone.starts_with("2 of 2 dead letters are due again;"));
    assert!(alone.contains("no server is running"), "{alone}");
}
