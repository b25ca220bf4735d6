//! The harness on a shell script: `sh serve …` runs the file `serve` of the data directory.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Posthaste, PosthasteBuilder};

fn a_folder_with(script: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("serve"), script).unwrap();
    folder
}

fn sh(folder: &Path) -> PosthasteBuilder {
    Posthaste::builder("/bin/sh").data_dir(folder)
}

/// Says where it listens, then waits for signals.
const WAITS: &str = "trap 'echo stopping; exit 7' TERM
    echo \"args $*\" >&2
    echo \"smtp ${SMTP_URL-none}, greeting ${GREETING-none}\" >&2
    echo \"listening on http://127.0.0.1:${PORT:-4711}\"
    while :; do sleep 0.02; done";

/// Answers every connection with the number of requests so far.
async fn a_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for n in 0_u64.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let first = String::from_utf8_lossy(&request[..read]);
            let first = first.lines().next().unwrap_or_default().to_owned();
            let body = json!({ "n": n, "request": first }).to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nx-test: yes\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn a_server_is_started_terminated_and_restarted() {
    let folder = a_folder_with(WAITS);
    let mut server = sh(folder.path())
        .env("SMTP_URL", "smtp://given")
        .arg("--role")
        .arg("api")
        .start()
        .await;
    assert_eq!(server.url("/x"), "http://127.0.0.1:4711/x");
    assert_eq!(server.terminate().await, Some(7));
    server
        .wait_for_line("--listen 127.0.0.1:0 --role api")
        .await;
    server
        .wait_for_line("smtp smtp://given, greeting none")
        .await;

    server.unset("SMTP_URL");
    server
        .restart(&[("GREETING", "hello"), ("PORT", "4712")])
        .await;
    assert_eq!(server.port(), 4712);
    server.wait_for_line("smtp none, greeting hello").await;
    server.kill9();
    server.kill9();
    server.restart(&[]).await;
    assert_eq!(server.port(), 4712);
}

#[tokio::test]
async fn a_paused_server_can_go_on_or_be_killed() {
    let folder = a_folder_with(WAITS);
    let mut server = sh(folder.path()).start().await;
    server.pause();
    server.resume();
    assert_eq!(server.terminate().await, Some(7));
    // A paused one can be killed.
    server.restart(&[]).await;
    server.pause();
    server.kill9();
}

#[tokio::test]
async fn a_server_that_ends_by_itself_is_waited_for() {
    let folder = a_folder_with("echo http://127.0.0.1:4711; exit 3");
    let mut server = sh(folder.path()).start().await;
    assert_eq!(server.wait_for_exit().await, Some(3));
}

#[tokio::test]
#[should_panic(expected = "no such setting")]
async fn a_server_that_does_not_start_shows_its_output() {
    let folder = a_folder_with("echo no such setting >&2; exit 2");
    sh(folder.path()).start().await;
}

#[tokio::test]
async fn answers_are_read_and_waited_for() {
    let folder = a_folder_with(WAITS);
    let port = a_server().await.to_string();
    let server = sh(folder.path()).env("PORT", port).start().await;
    let (status, headers, body) = server.get_json("/a").await;
    assert_eq!(
        (status.as_u16(), &headers["x-test"]),
        (200, &"yes".parse().unwrap())
    );
    assert_eq!(body["request"], "GET /a HTTP/1.1");
    let (_, _, body) = server.post_json("/b", &json!({ "x": 1 })).await;
    assert_eq!(body["request"], "POST /b HTTP/1.1");
    let later = body["n"].as_u64().unwrap() + 3;
    let email = server
        .wait_for_email("1", |email: &Value| email["n"].as_u64() >= Some(later))
        .await;
    assert_eq!(email["request"], "GET /v1/emails/1 HTTP/1.1");
}

#[tokio::test]
async fn a_command_runs_beside_the_server() {
    let folder = a_folder_with(WAITS);
    let server = sh(folder.path()).start().await;
    // The shell knows no such option, and says so.
    let (code, stdout, stderr) = server.run(&["emails", "list"]).await;
    assert_ne!(code, 0);
    assert_eq!(stdout, "");
    assert!(!stderr.is_empty());
}
