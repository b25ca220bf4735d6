//! What the scenarios share.

use posthaste_sink::{Sink, SinkConfig};
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use serde_json::{Value, json};

/// The real binary, not started yet.
pub fn posthaste() -> PosthasteBuilder {
    Posthaste::builder(env!("CARGO_BIN_EXE_posthaste"))
}

/// The real binary, sending to this sink, with short delays.
pub fn sending_to(sink: &Sink) -> PosthasteBuilder {
    posthaste()
        .env("SMTP_URL", format!("{}?tls=none", sink.url()))
        .env("BACKOFF_SCHEDULE", "100ms")
        .env("LEASE_SECONDS", "1")
}

/// A sink that keeps what it gets.
pub async fn a_sink() -> Sink {
    Sink::start(SinkConfig {
        keep_messages: true,
        ..SinkConfig::default()
    })
    .await
    .unwrap()
}

/// An email to someone.
pub fn email_to(recipient: &str) -> Value {
    json!({"from": "app@example.org", "to": recipient, "subject": "Hello", "text": "It works."})
}

/// Submits an email and gives its id.
pub async fn submit(server: &Posthaste, email: &Value) -> String {
    let answer = server.post_json("/v1/emails", email).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.body["id"].as_str().unwrap().to_owned()
}

/// Waits until the email is in this state and gives it.
pub async fn until(server: &Posthaste, id: &str, status: &str) -> Value {
    server
        .wait_for_email(id, |email| email["status"] == status)
        .await
}

/// How many copies of an email arrived at this recipient.
pub fn copies(sink: &Sink, id: &str, recipient: &str) -> u64 {
    sink.copies(&format!("{id}@example.org"), recipient)
}

/// Every promise holds, according to the command line.
pub async fn verify(server: &Posthaste) {
    let output = server.run(&["verify", "--json"]).await;
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}
