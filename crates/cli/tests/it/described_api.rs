//! The server against its own description: schemathesis reads `/openapi.json` and sends what it
//! allows and what it forbids. Every answer must be a described one, none a 5xx, and what was
//! refused must not be stored.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use posthaste_testkit::process::Posthaste;
use reqwest::Method;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::support::{email_to, run, submit, verify};

const CONFIG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/python/schemathesis.toml"
);

/// Requests per operation, besides those that go through its parameters one by one.
const EXAMPLES: &str = "20";

#[tokio::test]
async fn every_answer_is_as_described_and_what_is_refused_is_not_stored() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let first = submit(&server, &email_to("ann@example.org")).await;
    let template = json!({"subject": "Hello", "text": "Hello {{ name }}"});
    let saving = server.request(Method::PUT, "/v1/templates/greeting");
    let (status, _, body) = server.answer(saving.json(&template)).await;
    assert_eq!(status, 201, "{body}");
    let key = key(&server).await;

    let answers = answers(&server, &key, &first).await;

    let mut accepted: BTreeSet<String> = answers.iter().flat_map(accepted_ids).collect();
    assert!(!accepted.is_empty(), "not one email was accepted");
    accepted.insert(first);
    let listing = server.request(Method::GET, "/v1/stats").bearer_auth(&key);
    let (_, _, statistics) = server.answer(listing).await;
    assert_eq!(statistics["accepted"], accepted.len(), "{statistics}");
    verify(&server).await;
}

/// A key that may do everything.
async fn key(server: &Posthaste) -> String {
    let arguments = [
        "keys", "create", "--name", "x", "--scope", "admin", "--json",
    ];
    let made = run(server, &arguments).await;
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    made["key"].as_str().unwrap().to_owned()
}

/// Lets schemathesis ask, and gives every request with its answer, as in a HAR file.
async fn answers(server: &Posthaste, key: &str, email_id: &str) -> Vec<Value> {
    let python = std::env::var("TEST_PYTHON").unwrap_or_else(|_| {
        panic!("TEST_PYTHON is not set: run ./scripts/test, or name a Python that has schemathesis")
    });
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.har");
    let mut command = Command::new(python);
    command
        .current_dir(folder.path())
        .env("EMAIL_ID", email_id)
        .args(["-m", "schemathesis.cli", "--config-file", CONFIG, "run"])
        .arg(server.url("/openapi.json"))
        .args(["--header", &format!("Authorization: Bearer {key}")])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--generation-deterministic", "--max-examples", EXAMPLES])
        // A description cannot say all that makes a request valid: which names are known, say.
        .args(["--exclude-checks", "positive_data_acceptance"])
        // How quickly it answers is not the question here.
        .args(["--request-timeout", "60", "--suppress-health-check", "all"])
        .arg("--no-color")
        .arg("--report-har-path")
        .arg(&report);
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = running.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{trouble}");
    entries(&report)
}

fn entries(report: &Path) -> Vec<Value> {
    let mut report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    std::mem::take(report["log"]["entries"].as_array_mut().unwrap())
}

/// The emails that an answer says were accepted.
fn accepted_ids(entry: &Value) -> Vec<String> {
    let (request, response) = (&entry["request"], &entry["response"]);
    let url = request["url"].as_str().unwrap();
    let is_success = response["status"].as_u64().unwrap() < 300;
    if request["method"] != "POST" || !is_success {
        return Vec::new();
    }
    let text = response["content"]["text"].as_str().unwrap_or_default();
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let id = |entry: &Value| entry["id"].as_str().map(str::to_owned);
    if url.ends_with("/v1/emails") {
        id(&body).into_iter().collect()
    } else if url.ends_with("/v1/emails/batch") {
        let data = body["data"].as_array().unwrap();
        data.iter().filter_map(id).collect()
    } else {
        Vec::new()
    }
}
