//! The command line: exit codes, JSON, and a server that notices.

use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, get, run, submit, until, verify};

on_every_backend! {
    an_email_handed_in_by_the_command_line_is_sent_by_the_running_server,
    a_dead_letter_retried_by_the_command_line_is_sent_by_the_running_server,
    exit_codes_tell_what_happened,
    verify_fails_on_a_ledger_id_that_is_missing,
    once_a_key_exists_requests_need_one_and_a_revoked_one_is_useless_at_once,
    listening_beyond_this_machine_needs_a_key_first,
    a_forgotten_mail_server_does_not_turn_real_mail_into_captured_mail,
}

async fn an_email_handed_in_by_the_command_line_is_sent_by_the_running_server(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let output = run(
        &server,
        &[
            "send",
            "--from",
            "app@example.org",
            "--to",
            "ann@example.org",
            "--subject",
            "Hi",
            "--text",
            "x",
            "--json",
        ],
    )
    .await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    until(&server, answer["id"].as_str().unwrap(), "sent").await;
    verify(&server).await;
}

async fn a_dead_letter_retried_by_the_command_line_is_sent_by_the_running_server(
    backend: &Backend,
) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("MAX_ATTEMPTS", "1")
        .start()
        .await;
    let id = submit(&server, &email_to("fail1@example.org")).await;
    until(&server, &id, "dead").await;
    let listed = run(&server, &["dead", "list", "--json"]).await;
    assert_eq!(
        serde_json::from_str::<Value>(&listed.stdout).unwrap()["id"],
        id.as_str()
    );
    assert_eq!(run(&server, &["dead", "retry", "--all"]).await.code, 0);
    until(&server, &id, "sent").await;
    verify(&server).await;
}

async fn exit_codes_tell_what_happened(backend: &Backend) {
    let server = backend.posthaste().start().await;
    let nobody = "0198a000-0000-7000-8000-000000000000";
    let cases: [(&[&str], i32); 8] = [
        (&["emails", "list"], 0),
        (&["emails", "show", nobody], 4),
        (&["emails", "cancel", nobody], 4),
        (&["emails", "show", "nonsense"], 2),
        (
            &[
                "send",
                "--from",
                "nonsense",
                "--to",
                "ann@example.org",
                "--text",
                "x",
            ],
            2,
        ),
        (&["--config", "/nonexistent.toml", "emails", "list"], 2),
        (
            &["keys", "create", "--name", "x", "--scope", "everything"],
            2,
        ),
        (&["doctor", "--classify", "550 5.1.1 No such user"], 0),
    ];
    for (arguments, code) in cases {
        let output = run(&server, arguments).await;
        assert_eq!(
            output.code, code,
            "{arguments:?}: {}{}",
            output.stdout, output.stderr
        );
    }
}

async fn verify_fails_on_a_ledger_id_that_is_missing(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "sent").await;
    let ledger = server.data_dir().join("ledger");
    std::fs::write(&ledger, format!("# accepted\n{id}\n")).unwrap();
    let path = ledger.to_str().unwrap();
    assert_eq!(run(&server, &["verify", "--ledger", path]).await.code, 0);
    std::fs::write(
        &ledger,
        format!("{id}\n0198a000-0000-7000-8000-000000000000\n"),
    )
    .unwrap();
    let output = run(&server, &["verify", "--ledger", path]).await;
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("I2"), "{}", output.stdout);
}

async fn once_a_key_exists_requests_need_one_and_a_revoked_one_is_useless_at_once(
    backend: &Backend,
) {
    let server = backend.posthaste().start().await;
    assert_eq!(get(&server, "/v1/stats").await.status, 200);
    let made = run(
        &server,
        &[
            "keys", "create", "--name", "ops", "--scope", "admin", "--json",
        ],
    )
    .await;
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let key = made["key"].as_str().unwrap();
    let asked = async |key: &str| {
        let request = server
            .request(reqwest::Method::GET, "/v1/stats")
            .bearer_auth(key);
        server.answer(request).await.0
    };
    assert_eq!(asked(key).await, 200);
    assert_eq!(get(&server, "/v1/stats").await.status, 401);
    assert_eq!(asked("ph_wrong").await, 401);
    assert_eq!(
        run(&server, &["keys", "revoke", made["id"].as_str().unwrap()])
            .await
            .code,
        0
    );
    assert_eq!(asked(key).await, 401);
}

async fn listening_beyond_this_machine_needs_a_key_first(backend: &Backend) {
    let mut server = backend.posthaste().start().await;
    server.kill9();
    let output = run(&server, &["serve", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(
        output.stderr.contains("posthaste keys create"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn the_configuration_is_shown_without_secrets() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    server.set("SMTP_URL", "smtp://user:hunter2@mail.example.org");
    let output = run(&server, &["config", "show"]).await;
    assert_eq!(output.code, 0);
    assert!(
        output.stdout.contains("smtp://user:***@mail.example.org"),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("hunter2"));
}

async fn a_forgotten_mail_server_does_not_turn_real_mail_into_captured_mail(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "1h")
        .start()
        .await;
    let id = submit(&server, &email_to("tempfail@example.org")).await;
    until(&server, &id, "failed").await;
    assert_eq!(server.terminate().await, Some(0));
    server.unset("SMTP_URL");
    let output = run(&server, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("SMTP_URL"), "{}", output.stderr);
    // Neither may one that was accepted and not tried yet, once others went over SMTP.
    assert_eq!(run(&server, &["emails", "cancel", &id]).await.code, 0);
    server
        .restart(&[("SMTP_URL", &format!("{}?tls=none", sink.url()))])
        .await;
    let sent = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &sent, "sent").await;
    assert_eq!(server.terminate().await, Some(0));
    server.unset("SMTP_URL");
    let new = [
        "send",
        "--from",
        "app@example.org",
        "--to",
        "bob@example.org",
        "--text",
        "x",
        "--json",
    ];
    let new: Value = serde_json::from_str(&run(&server, &new).await.stdout).unwrap();
    let output = run(&server, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    // On purpose they may.
    server.restart(&[("SMTP_URL", "capture")]).await;
    let sent = until(&server, new["id"].as_str().unwrap(), "sent").await;
    assert_eq!(sent["attempts"][0]["transport"], "capture");
}

#[tokio::test]
async fn commands_do_not_invent_a_database_in_the_wrong_folder() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    let elsewhere = server.data_dir().join("elsewhere.db");
    server.set("DATABASE_URL", &format!("sqlite:{}", elsewhere.display()));
    for arguments in [
        &["verify"][..],
        &["emails", "list"],
        &["dead", "groups"],
        &["audit"],
    ] {
        let output = run(&server, arguments).await;
        assert_eq!(output.code, 4, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains("--data-dir"), "{}", output.stderr);
    }
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn mail_is_kept_from_other_users_of_the_machine() {
    use std::os::unix::fs::PermissionsExt as _;
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    for file in ["posthaste.db", "posthaste.db-wal"] {
        let mode = std::fs::metadata(server.data_dir().join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{file}: {mode:o}");
    }
}

#[tokio::test]
async fn a_slip_in_the_configuration_is_refused_by_name_and_changes_nothing() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    for (variable, value) in [
        ("POSTHASTE_SMTP_URL", "smtp://x"),
        ("POSTHASTE_SENDER__CONECTIONS", "5"),
        ("SMTP_URL", "smtp://host:99999"),
        ("LEASE_SECONDS", "120s"),
        ("BACKOFF_SCHEDULE", "2s,,5s"),
        ("POSTHASTE_LOG__LEVEL", "loud"),
    ] {
        server.set(variable, value);
        let output = run(&server, &["config", "check"]).await;
        assert_eq!(output.code, 2, "{variable}={value}: {}", output.stdout);
        assert!(!output.stderr.is_empty());
        server.unset(variable);
    }
    assert_eq!(run(&server, &["config", "check"]).await.code, 0);
}

#[tokio::test]
async fn an_empty_list_says_so_and_a_limit_of_none_is_refused() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    for list in [
        &["emails", "list"][..],
        &["dead", "list"],
        &["dead", "groups"],
        &["messages", "list"],
        &["operations", "list"],
        &["templates", "list"],
        &["keys", "list"],
        &["admin", "list"],
        &["audit"],
    ] {
        let output = run(&server, list).await;
        assert_eq!(output.code, 0, "{list:?}");
        assert_eq!(output.stderr, "There are none.\n", "{list:?}");
    }
    for list in [
        &["emails", "list", "--limit", "0"][..],
        &["dead", "list", "--limit", "0"],
        &["messages", "list", "--limit", "0"],
        &["operations", "list", "--limit", "0"],
        &["audit", "--limit", "0"],
    ] {
        let output = run(&server, list).await;
        assert_eq!(output.code, 2, "{list:?}");
        assert!(output.stderr.contains("--limit"), "{}", output.stderr);
    }
}

#[tokio::test]
async fn the_audit_log_knows_a_user_whom_the_environment_does_not_name() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    server.set("USER", "");
    server.set("LOGNAME", "");
    let made = run(&server, &["keys", "create", "--name", "x"]).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    let audit = run(&server, &["audit", "--json"]).await.stdout;
    let entry: Value = serde_json::from_str(&audit).unwrap();
    let actor = entry["actor"].as_str().unwrap();
    assert!(!["cli:", "cli:unknown"].contains(&actor), "{actor}");
}
