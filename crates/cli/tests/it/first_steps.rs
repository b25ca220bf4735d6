//! What a newcomer does.

use serde_json::json;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, get, post, submit, text, until, verify};

on_every_backend! {
    the_printed_curl_line_puts_an_email_into_the_dev_inbox,
    with_smtp_url_it_arrives_at_the_server,
    the_same_key_twice_gives_one_email,
    an_email_for_later_waits_for_its_time,
    several_recipients_are_told_apart,
}

async fn the_printed_curl_line_puts_an_email_into_the_dev_inbox(backend: &Backend) {
    // Nothing else between the lines.
    let quiet = backend.posthaste().env("POSTHASTE_LOG__LEVEL", "error");
    let server = quiet.start().await;
    server.wait_for_line("-d '{").await;
    // The line as it is printed, run by a shell.
    let printed = server.log();
    let at = printed.find("curl ").expect("a curl line");
    let command = printed[at..]
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .trim();
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{command} -s")])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["status"], "pending", "{answer}");

    let email = until(&server, answer["id"].as_str().unwrap(), "sent").await;

    assert_eq!(email["status_text"], "Delivered");
    assert_eq!(email["attempts"][0]["transport"], "capture");
    let inbox = text(&server, "/admin/inbox").await;
    assert!(inbox.contains("you@example.org"), "{inbox}");
    verify(&server).await;
}

async fn with_smtp_url_it_arrives_at_the_server(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    let email = until(&server, &id, "sent").await;
    assert_eq!(email["attempts"][0]["outcome"], "sent");
    let message = &sink.messages()[0];
    assert_eq!(message.from, "app@example.org");
    assert_eq!(message.recipients, ["ann@example.org"]);
    assert!(String::from_utf8_lossy(&message.bytes).contains("It works."));
    verify(&server).await;
}

async fn the_same_key_twice_gives_one_email(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let mut email = email_to("ann@example.org");
    email["message_key"] = json!("order-1");
    let first = post(&server, "/v1/emails", &email).await;
    let again = post(&server, "/v1/emails", &email).await;
    assert_eq!((first.status, again.status), (202, 200));
    assert_eq!(first.body["id"], again.body["id"]);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));

    email["subject"] = json!("Something else");
    let other = post(&server, "/v1/emails", &email).await;
    assert_eq!(other.status, 422);
    assert_eq!(other.body["errors"][0]["field"], "message_key");

    let id = first.body["id"].as_str().unwrap();
    until(&server, id, "sent").await;
    assert_eq!(sink.report().messages, 1);
    verify(&server).await;
}

async fn an_email_for_later_waits_for_its_time(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let mut email = email_to("ann@example.org");
    let at = jiff::Timestamp::now() + std::time::Duration::from_secs(3);
    email["send_at"] = json!(at.to_string());
    let id = submit(&server, &email).await;
    let waiting = get(&server, &format!("/v1/emails/{id}")).await;
    assert_eq!(waiting.body["status_text"], "Scheduled");
    let sent = until(&server, &id, "sent").await;
    assert!(
        sent["sent_at"].as_str().unwrap() >= at.to_string().as_str(),
        "{sent}"
    );
    verify(&server).await;
}

async fn several_recipients_are_told_apart(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let mut email = email_to("ann@example.org");
    email["to"] = json!(["ann@example.org", "reject@example.org", "fail1@example.org"]);
    let id = submit(&server, &email).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["status_text"], "Delivered to 2 of 3", "{dead}");
    let standing: Vec<_> = dead["recipients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["status"].clone())
        .collect();
    assert_eq!(standing, ["accepted", "dead", "accepted"]);
    verify(&server).await;
}
