//! What the scenarios about ways out share.

use std::collections::BTreeMap;

use posthaste_sink::{Credentials, Sink, SinkConfig};
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use posthaste_testkit::{Provider, TakenEmail, webhook_headers};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Reply, copies, email_to, get, post};

/// What Resend signs with.
pub(crate) const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Times so short that a scenario sees the whole of a breaker's life.
const QUICK: [(&str, &str); 5] = [
    ("POSTHASTE_BREAKER__FIRST_PROBE", "100ms"),
    ("POSTHASTE_BREAKER__LONGEST_PROBE", "200ms"),
    ("POSTHASTE_BREAKER__RAMP_RATE", "50"),
    ("POSTHASTE_BREAKER__RAMP_DOUBLING", "100ms"),
    ("POSTHASTE_BREAKER__RAMP", "1s"),
];

/// With a breaker of short times.
pub(crate) fn quick(builder: PosthasteBuilder) -> PosthasteBuilder {
    let variables = QUICK.iter();
    variables.fold(builder, |builder, (name, value)| builder.env(name, *value))
}

/// A configuration file that lives as long as this.
pub(crate) struct ConfigFile {
    folder: TempDir,
}

impl ConfigFile {
    pub(crate) fn new(text: &str) -> Self {
        let file = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(file.path(), text).unwrap();
        file
    }

    pub(crate) fn path(&self) -> String {
        let path = self.folder.path().join("ways.toml");
        path.to_str().unwrap().to_owned()
    }

    /// A server with this file.
    pub(crate) fn of(&self, builder: PosthasteBuilder) -> PosthasteBuilder {
        builder.env("POSTHASTE_CONFIG", self.path())
    }
}

/// A sink that only takes mail of `app` with the password `right`.
pub(crate) async fn a_guarded_sink() -> Sink {
    Sink::start(SinkConfig {
        keep_messages: true,
        credentials: Some(Credentials::new("app", "right")),
        ..SinkConfig::default()
    })
    .await
    .unwrap()
}

/// The sink's URL with this password.
pub(crate) fn url_with_password(sink: &Sink, password: &str) -> String {
    format!("smtp://app:{password}@{}?tls=none", sink.addr())
}

/// The configuration of a second way out, `backup`, after `smtp`.
pub(crate) fn with_backup(provider: &Provider) -> ConfigFile {
    let section = provider.section("backup");
    ConfigFile::new(&format!(
        "{section}webhook_secret = \"{WEBHOOK_SECRET}\"\n[route.default]\norder = [\"smtp\", \"backup\"]\n"
    ))
}

/// The configuration of a provider as the only way out, which also speaks of emails later.
pub(crate) fn with_provider(provider: &Provider) -> ConfigFile {
    let section = provider.section("resend");
    ConfigFile::new(&format!("{section}webhook_secret = \"{WEBHOOK_SECRET}\"\n"))
}

/// Emails to so many people, each at a domain of its own.
pub(crate) fn emails_to_many(count: usize) -> Vec<Value> {
    let email = |n| email_to(&format!("user{n}@d{n}.example.org"));
    (0..count).map(email).collect()
}

/// Hands in emails and gives their ids, in their order.
pub(crate) async fn submit_all(server: &Posthaste, emails: &[Value]) -> Vec<String> {
    let answer = post(server, "/v1/emails/batch", &json!({"emails": emails})).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let entries = answer.body["data"].as_array().unwrap().iter();
    let id = |entry: &Value| entry["id"].as_str().unwrap().to_owned();
    entries.map(id).collect()
}

/// All emails as they stand, by id. There must be fewer than a page takes.
pub(crate) async fn all_emails(server: &Posthaste) -> BTreeMap<String, Value> {
    let page = get(server, "/v1/emails?limit=500").await.body;
    assert_eq!(page["has_more"], false, "{page}");
    let emails = page["data"].as_array().unwrap().iter();
    emails
        .map(|email| (email["id"].as_str().unwrap().to_owned(), email.clone()))
        .collect()
}

/// Waits until so many emails are as wanted.
pub(crate) async fn until_count(server: &Posthaste, count: usize, wanted: impl Fn(&Value) -> bool) {
    let all = |page: &Value| {
        let emails = page["data"].as_array().unwrap();
        emails.iter().filter(|email| wanted(email)).count() == count
    };
    server.wait_for("/v1/emails?limit=500", all).await;
}

/// Whether an email waits for a way out.
pub(crate) fn is_parked(email: &Value) -> bool {
    email["status"] == "failed" && email["waiting_for"].is_string()
}

/// Waits until all of these wait for a way out, but perhaps the one that tests it at this moment.
pub(crate) async fn until_all_are_parked(server: &Posthaste, count: usize) {
    let parked = |page: &Value| {
        let emails = page["data"].as_array().unwrap();
        emails.iter().filter(|email| is_parked(email)).count() >= count - 1
    };
    server.wait_for("/v1/emails?limit=500", parked).await;
}

/// How a way out does, as the API shows it.
pub(crate) async fn transport(server: &Posthaste, name: &str) -> Value {
    get(server, &format!("/v1/transports/{name}")).await.body
}

/// Waits until a way out is in this state.
pub(crate) async fn until_transport(server: &Posthaste, name: &str, state: &str) -> Value {
    let is_so = |transport: &Value| transport["state"] == state;
    server
        .wait_for(&format!("/v1/transports/{name}"), is_so)
        .await
}

/// The transports of an email's attempts.
pub(crate) fn transports(email: &Value) -> Vec<&str> {
    let attempts = email["attempts"].as_array().unwrap().iter();
    attempts
        .map(|attempt| attempt["transport"].as_str().unwrap_or("none"))
        .collect()
}

/// Which of an email's attempts were counted.
pub(crate) fn counted(email: &Value) -> Vec<bool> {
    let attempts = email["attempts"].as_array().unwrap().iter();
    attempts
        .map(|attempt| attempt["counted"].as_bool().unwrap())
        .collect()
}

/// How many copies of an email left, by either way.
pub(crate) fn copies_in_all(sink: &Sink, provider: &Provider, id: &str, to: &str) -> u64 {
    copies(sink, id, to) + provider.copies(id)
}

/// Posts to where a provider speaks, with these headers.
pub(crate) async fn post_event(
    server: &Posthaste,
    transport: &str,
    headers: &[(&str, String)],
    body: &str,
) -> Reply {
    let path = format!("/v1/provider-events/{transport}");
    let request = server.request(reqwest::Method::POST, &path);
    let request = request.header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, value)
    });
    let (status, headers, body) = server.answer(request.body(body.to_owned())).await;
    Reply {
        status: status.as_u16(),
        headers,
        body,
    }
}

/// The provider says what became of an email, and signs it.
pub(crate) async fn says(
    server: &Posthaste,
    transport: &str,
    taken: &TakenEmail,
    kind: &str,
) -> Value {
    let body = taken.event(kind).to_string();
    let now = jiff::Timestamp::now().as_second();
    let headers = webhook_headers(WEBHOOK_SECRET, now, &body);
    let answer = post_event(server, transport, &headers, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}
