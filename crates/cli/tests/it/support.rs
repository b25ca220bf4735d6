//! What the scenarios share.

use std::time::Duration;

use posthaste_sink::{Sink, SinkConfig};
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::Backend;

/// An interval so long that senders and schedulers do nothing unless they are told to.
pub(crate) const FAR_AWAY: (&str, &str) = ("RETRY_INTERVAL_SECONDS", "3600");

/// A sink that keeps what it gets.
pub(crate) async fn a_sink() -> Sink {
    Sink::start(SinkConfig {
        keep_messages: true,
        ..SinkConfig::default()
    })
    .await
    .unwrap()
}

/// An email to someone.
pub(crate) fn email_to(recipient: &str) -> Value {
    json!({"from": "app@example.org", "to": recipient, "subject": "Hello", "text": "It works."})
}

/// What the server answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// A header of the answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn reply((status, headers, body): posthaste_testkit::process::Answer) -> Reply {
    Reply {
        status: status.as_u16(),
        headers,
        body,
    }
}

/// GET.
pub(crate) async fn get(server: &Posthaste, path: &str) -> Reply {
    reply(server.get_json(path).await)
}

/// GET of something that is not JSON.
pub(crate) async fn text(server: &Posthaste, path: &str) -> String {
    get(server, path)
        .await
        .body
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// POST with a JSON body.
pub(crate) async fn post(server: &Posthaste, path: &str, body: &Value) -> Reply {
    reply(server.post_json(path, body).await)
}

/// How a command ended.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command beside the server.
pub(crate) async fn run(server: &Posthaste, arguments: &[&str]) -> Output {
    let (code, stdout, stderr) = server.run(arguments).await;
    Output {
        code,
        stdout,
        stderr,
    }
}

/// Submits an email and gives its id.
pub(crate) async fn submit(server: &Posthaste, email: &Value) -> String {
    let answer = post(server, "/v1/emails", email).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.body["id"].as_str().unwrap().to_owned()
}

/// An email with a key, to be handed in again after a crash.
pub(crate) fn keyed_email_to(recipient: &str) -> Value {
    let mut email = email_to(recipient);
    email["message_key"] = json!("before-the-crash");
    email
}

/// Hands in an email over which the server dies, perhaps before it can answer.
pub(crate) async fn submit_fatal(server: &mut Posthaste, email: &Value) {
    let request = server
        .request(reqwest::Method::POST, "/v1/emails")
        .json(email);
    let _ = server.try_answer(request).await;
    server.wait_for_exit().await;
}

/// The id of an email that was durable before the crash: its key says so.
pub(crate) async fn id_of_accepted(server: &Posthaste, email: &Value) -> String {
    let answer = post(server, "/v1/emails", email).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["id"].as_str().unwrap().to_owned()
}

/// Waits until the email is in this state and gives it.
pub(crate) async fn until(server: &Posthaste, id: &str, status: &str) -> Value {
    server
        .wait_for_email(id, |email| email["status"] == status)
        .await
}

/// How each attempt of an email ended.
pub(crate) fn outcomes(email: &Value) -> Vec<String> {
    let attempts = email["attempts"].as_array().unwrap();
    let outcome = |attempt: &Value| attempt["outcome"].as_str().unwrap().to_owned();
    attempts.iter().map(outcome).collect()
}

/// Waits until nobody has renewed an email's lease for longer than it lasts.
pub(crate) async fn until_the_lease_ran_out(backend: &Backend, id: &str) {
    loop {
        let (until, now) = backend.locked_until_and_now(id).await;
        if now > until + Duration::from_millis(500) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "in vain: {what}");
}

/// Waits until nothing is in trouble: the broker is connected, too.
pub(crate) async fn until_healthy(server: &Posthaste) {
    server
        .wait_for("/readyz", |health| health["status"] == "ok")
        .await;
}

/// The value of a metric such as `posthaste_dead_total{reason="Expired"}`.
pub(crate) async fn metric(server: &Posthaste, name: &str) -> f64 {
    let metrics = text(server, "/metrics").await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    value.parse().unwrap()
}

/// The lines that a process logged with this message and about this email.
pub(crate) fn logged(server: &Posthaste, message: &str, id: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["message"] == message && line["email_id"] == id)
        .collect()
}

/// How many copies of an email arrived at this recipient.
pub(crate) fn copies(sink: &Sink, id: &str, recipient: &str) -> u64 {
    sink.copies(&format!("{id}@example.org"), recipient)
}

/// Every promise holds, according to the command line.
pub(crate) async fn verify(server: &Posthaste) {
    let output = run(server, &["verify", "--json"]).await;
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}
