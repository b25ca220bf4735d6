//! The server on a real port.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste_server::Limits;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fixture::{email, parts};

struct Running {
    addr: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
    _folder: TempDir,
}

async fn run(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (parts, _, _, folder) = parts(limits);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(posthaste_server::serve(listener, parts, shutdown.clone()));
    Running {
        addr,
        shutdown,
        task,
        _folder: folder,
    }
}

/// Reads one answer from a connection that stays open.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.unwrap();
        text.extend_from_slice(&chunk[..n]);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            assert!(n > 0, "the connection ended early: {shown}");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if body.len() >= length {
            return shown;
        }
    }
}

#[tokio::test]
async fn an_email_is_accepted_over_the_wire() {
    let running = run(Limits::default()).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}/v1/emails", running.addr);
    let answer = client
        .post(&url)
        .json(&email(json!({})))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 202);
    let id = answer.json::<Value>().await.unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = client.get(format!("{url}/{id}")).send().await.unwrap();
    assert_eq!(shown.json::<Value>().await.unwrap()["status"], "pending");
    running.shutdown.cancel();
    running.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_is_somewhat_too_large_gets_its_413_over_the_wire() {
    let running = run(Limits::default()).await;
    let url = format!("http://{}/v1/emails", running.addr);
    let large = email(json!({"text": "x".repeat(27 * 1024 * 1024)}));
    let answer = reqwest::Client::new()
        .post(&url)
        .json(&large)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 413);
}

#[tokio::test]
async fn at_shutdown_what_is_under_way_is_answered_and_nothing_new_is_begun() {
    let running = run(Limits::default()).await;
    let host = format!("Host: localhost:{}\r\n", running.addr.port());

    // An idle connection that would like to be kept.
    let mut idle = TcpStream::connect(running.addr).await.unwrap();
    idle.write_all(format!("GET /readyz HTTP/1.1\r\n{host}\r\n").as_bytes())
        .await
        .unwrap();
    assert!(read_answer(&mut idle).await.starts_with("HTTP/1.1 200"));

    // A request under way: its head has arrived, its body not yet.
    let body = email(json!({})).to_string();
    let mut posting = TcpStream::connect(running.addr).await.unwrap();
    let head = format!(
        "POST /v1/emails HTTP/1.1\r\n{host}Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    posting.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once the handler wants it.
    assert!(read_answer(&mut posting).await.starts_with("HTTP/1.1 100"));

    running.shutdown.cancel();
    assert_eq!(
        idle.read(&mut [0; 1]).await.unwrap(),
        0,
        "idle connections are closed"
    );
    while TcpStream::connect(running.addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!running.task.is_finished());

    posting.write_all(body.as_bytes()).await.unwrap();
    let answer = read_answer(&mut posting).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    tokio::time::timeout(Duration::from_secs(10), running.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn the_server_is_not_ready_while_it_drains() {
    let running = run(Limits::default()).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    // The head is begun before the shutdown, and ended after it.
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: local")
        .await
        .unwrap();
    let mut probe = TcpStream::connect(running.addr).await.unwrap();
    probe
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    read_answer(&mut probe).await;
    running.shutdown.cancel();
    stream.write_all(b"host\r\n\r\n").await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("draining"), "{answer}");
    running.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let running = run(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = TcpStream::connect(running.addr).await.unwrap();
    first.write_all(request).await.unwrap();
    read_answer(&mut first).await;
    let mut second = TcpStream::connect(running.addr).await.unwrap();
    second.write_all(request).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(100), second.read(&mut [0; 1])).await;
    assert!(
        waited.is_err(),
        "the second was answered while the first was open"
    );
    drop(first);
    assert!(read_answer(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_that_asks_for_nothing_does_not_hold_up_the_shutdown() {
    let running = run(Limits::default()).await;
    let mut silent = TcpStream::connect(running.addr).await.unwrap();
    let mut halfway = TcpStream::connect(running.addr).await.unwrap();
    halfway
        .write_all(b"GET /livez HTTP/1.1\r\nHo")
        .await
        .unwrap();
    running.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), running.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    for stream in [&mut silent, &mut halfway] {
        assert!(matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    }
}
