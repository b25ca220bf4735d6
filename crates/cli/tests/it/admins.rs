//! People who log in: made by the command line, let in by the running server.

use posthaste_testkit::process::Posthaste;
use reqwest::header::{HeaderMap, SET_COOKIE};
use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::support::{Output, get, run};

on_every_backend! {
    an_admin_made_by_the_command_line_can_log_in_at_once,
    a_removed_admin_is_logged_out_at_once,
    another_password_ends_the_session,
    a_viewer_cannot_act_until_the_role_is_changed,
    an_admin_is_reason_enough_to_listen_beyond_this_machine,
}

const PASSWORD: &str = "correct horse battery";

/// Runs a command that reads a password.
async fn with_password(server: &Posthaste, arguments: &[&str], password: &str) -> Output {
    let (code, stdout, stderr) = server.run_with_input(arguments, password).await;
    Output {
        code,
        stdout,
        stderr,
    }
}

async fn create(server: &Posthaste, name: &str, role: &str) {
    let arguments = ["admin", "create", name, "--role", role];
    let output = with_password(server, &arguments, PASSWORD).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
}

/// A page as a browser gets it.
struct Page {
    status: u16,
    headers: HeaderMap,
    body: String,
}

/// Sends a request with a form, if there are fields, and does not follow where it leads.
async fn ask(server: &Posthaste, cookie: &str, path: &str, fields: Option<String>) -> Page {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let url = server.url(path);
    let request = match fields {
        None => client.get(url),
        Some(fields) => client
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields),
    };
    let request = request
        .header("accept", "text/html")
        .header("cookie", cookie);
    let response = request.send().await.unwrap();
    Page {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.text().await.unwrap(),
    }
}

/// Logs in and gives the cookie; `None` if that was refused.
async fn log_in(server: &Posthaste, name: &str, password: &str) -> Option<String> {
    let password = password.replace(' ', "+");
    let fields = format!("name={name}&password={password}");
    let page = ask(server, "", "/admin/login", Some(fields)).await;
    let cookie = page.headers.get(SET_COOKIE)?.to_str().unwrap();
    assert_eq!(page.status, 303);
    cookie.split(';').next().map(str::to_owned)
}

async fn is_let_in(server: &Posthaste, cookie: &str) -> bool {
    let page = ask(server, cookie, "/admin", None).await;
    match page.status {
        200 => true,
        303 => false,
        other => panic!("{other}: {}", page.body),
    }
}

async fn an_admin_made_by_the_command_line_can_log_in_at_once(backend: &Backend) {
    let server = backend.posthaste().start().await;
    assert!(is_let_in(&server, "").await, "nobody needs a login yet");
    create(&server, "Ann", "operator").await;
    assert!(!is_let_in(&server, "").await);
    assert_eq!(get(&server, "/v1/stats").await.status, 401);
    assert_eq!(log_in(&server, "ann", "wrong password").await, None);
    let cookie = log_in(&server, "ann", PASSWORD).await.unwrap();
    assert!(is_let_in(&server, &cookie).await);

    let list = run(&server, &["admin", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(
        (&listed["name"], &listed["role"]),
        (&Value::from("ann"), &Value::from("operator"))
    );
    let audit = run(&server, &["audit", "--actor", "admin:ann", "--json"]).await;
    let entry: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!(entry["action"], "login", "the only one");
    for secret in [PASSWORD, cookie.split('=').next_back().unwrap()] {
        assert!(!server.log().contains(secret), "a secret is in the log");
    }
}

async fn a_removed_admin_is_logged_out_at_once(backend: &Backend) {
    let server = backend.posthaste().start().await;
    create(&server, "ann", "operator").await;
    create(&server, "bob", "viewer").await;
    let cookie = log_in(&server, "ann", PASSWORD).await.unwrap();
    assert!(is_let_in(&server, &cookie).await);
    assert_eq!(run(&server, &["admin", "remove", "ann"]).await.code, 0);
    assert!(!is_let_in(&server, &cookie).await);
    assert_eq!(log_in(&server, "ann", PASSWORD).await, None);
    assert_eq!(run(&server, &["admin", "remove", "ann"]).await.code, 4);
}

async fn another_password_ends_the_session(backend: &Backend) {
    let server = backend.posthaste().start().await;
    create(&server, "ann", "operator").await;
    let cookie = log_in(&server, "ann", PASSWORD).await.unwrap();
    let file = server.data_dir().join("password");
    std::fs::write(&file, "another good one\n").unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["admin", "password", "ann", "--password-file", file];
    let output = run(&server, &arguments).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!is_let_in(&server, &cookie).await);
    assert_eq!(log_in(&server, "ann", PASSWORD).await, None);
    assert!(log_in(&server, "ann", "another good one").await.is_some());
}

async fn a_viewer_cannot_act_until_the_role_is_changed(backend: &Backend) {
    let server = backend.posthaste().start().await;
    create(&server, "vera", "viewer").await;
    let cookie = log_in(&server, "vera", PASSWORD).await.unwrap();
    let page = ask(&server, &cookie, "/admin", None).await.body;
    let (_, rest) = page.split_once("data-csrf=\"").unwrap();
    let token = rest.split('"').next().unwrap();
    let path = "/admin/emails/0198f7a2-7b1c-7def-8000-000000000001/retry";
    let act = async || {
        let fields = Some(format!("csrf={token}"));
        ask(&server, &cookie, path, fields).await.status
    };
    assert_eq!(act().await, 403);
    let changed = run(&server, &["admin", "role", "vera", "operator"]).await;
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    assert_eq!(act().await, 404, "allowed, but there is no such email");
}

async fn an_admin_is_reason_enough_to_listen_beyond_this_machine(backend: &Backend) {
    let mut server = backend.posthaste().start().await;
    server.kill9();
    let refused = run(&server, &["serve", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("posthaste admin create"));
    create(&server, "ann", "operator").await;
    server
        .restart(&[("POSTHASTE_SERVER__HOST", "0.0.0.0")])
        .await;
    assert!(!is_let_in(&server, "").await);
}

#[tokio::test]
async fn what_the_first_login_changes_is_said_before_the_password_is_asked_for() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let notice = "posthaste keys create --name";
    let refused = with_password(&server, &["admin", "create", "ann"], "").await;
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains(notice), "{}", refused.stderr);
    for (name, is_first) in [("ann", true), ("bob", false)] {
        let made = with_password(&server, &["admin", "create", name], PASSWORD).await;
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert_eq!(made.stderr.contains(notice), is_first, "{}", made.stderr);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_name_or_a_password_is_said() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    create(&server, "ann", "viewer").await;
    for (arguments, password, message) in [
        (
            &["admin", "create", "bob"][..],
            "short",
            "at least 10 characters",
        ),
        (&["admin", "create", "bob"], "", "the password is empty"),
        (
            &["admin", "create", "b ob"],
            PASSWORD,
            "must not contain ` `",
        ),
        (
            &["admin", "create", "ANN"],
            PASSWORD,
            "posthaste admin password",
        ),
        (
            &["admin", "create", "bob", "--role", "boss"],
            PASSWORD,
            "viewer operator",
        ),
        (
            &["admin", "password", "ann"],
            "aaaaaaaaaaaa",
            "over and over",
        ),
        (&["admin", "role", "ann", "boss"], "", "viewer operator"),
    ] {
        let output = with_password(&server, arguments, password).await;
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
    let unknown = with_password(&server, &["admin", "password", "bob"], PASSWORD).await;
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);
    let list = run(&server, &["admin", "list"]).await;
    assert_eq!(list.stdout.lines().count(), 2, "{}", list.stdout);
}
