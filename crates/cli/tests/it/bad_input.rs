//! Inputs that are refused: a 4xx that names the field, and nothing is stored. And those that only
//! look as if they should be.

use posthaste_testkit::process::Posthaste;
use reqwest::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::bad_input_cases::{Case, cases};
use crate::support::{a_sink, email_to, get, post, submit, until, verify};

on_every_backend! {
    every_bad_input_is_refused_by_name_and_stores_nothing,
    one_bad_entry_of_a_batch_spoils_no_other,
    what_looks_odd_but_is_fine_arrives_as_it_was,
}

async fn every_bad_input_is_refused_by_name_and_stores_nothing(backend: &Backend) {
    let server = backend.posthaste().start().await;
    let loops = |inner: &str| {
        let begin = "{% for a in list %}{% for b in list %}{% for c in list %}";
        format!("{begin}{inner}{{% endfor %}}{{% endfor %}}{{% endfor %}}")
    };
    save_template(&server, "greeting", "Hello {{ name }}").await;
    save_template(&server, "endless", &loops("")).await;
    save_template(&server, "flood", &loops(&"x".repeat(10_000))).await;
    let kept = rows(&server).await;
    let mut wrong = Vec::new();
    for case in cases() {
        wrong.extend(wrong_about(&server, case).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(rows(&server).await, kept);
    verify(&server).await;
}

async fn one_bad_entry_of_a_batch_spoils_no_other(backend: &Backend) {
    let server = backend.posthaste().start().await;
    let mut bad = email_to("ann@example.org");
    bad["subject"] = json!("a\r\nBcc: eve@example.org");
    let batch = json!({"emails": [bad, email_to("bob@example.org")]});
    let answer = post(&server, "/v1/emails/batch", &batch).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let data = &answer.body["data"];
    assert_eq!(data[0]["error"]["errors"][0]["field"], "subject");
    let listed = get(&server, "/v1/emails").await.body["data"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["id"], data[1]["id"]);
    verify(&server).await;
}

async fn what_looks_odd_but_is_fine_arrives_as_it_was(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let long = "x".repeat(5_000);
    let text = format!("a\r\n.\r\nb\r\n..c\r\n{long}\r\n");
    let mut email = email_to("ann@bücher.example");
    email["text"] = json!(text);
    let id = submit(&server, &email).await;
    until(&server, &id, "sent").await;
    assert_eq!(
        sink.copies(&format!("{id}@example.org"), "ann@xn--bcher-kva.example"),
        1
    );
    let message = String::from_utf8(sink.messages()[0].bytes.clone()).unwrap();
    assert!(
        message.split("\r\n").all(|line| line.len() <= 998),
        "{message}"
    );
    assert!(message.contains("Content-Transfer-Encoding: quoted-printable"));
    // Soft line breaks are not part of the text.
    assert!(message.replace("=\r\n", "").contains(&text), "{message}");
}

async fn save_template(server: &Posthaste, name: &str, text: &str) {
    let request = server
        .request(Method::PUT, &format!("/v1/templates/{name}"))
        .json(&json!({"from": "app@example.org", "subject": "Hello", "text": text}));
    let (status, _, body) = server.answer(request).await;
    assert_eq!(status, 201, "{body}");
}

/// Sends it, and says what is wrong with the answer unless it is a problem that names the field.
async fn wrong_about(server: &Posthaste, case: Case) -> Option<String> {
    let mut request = server
        .request(case.method, case.path)
        .header("content-type", "application/json")
        .body(case.body);
    for (name, value) in case.headers {
        request = request.header(name, value);
    }
    let (status, headers, body) = server.answer(request).await;
    let is_problem = headers["content-type"] == "application/problem+json";
    let errors = body["errors"].as_array().cloned().unwrap_or_default();
    let named: Vec<&Value> = errors.iter().map(|error| &error["field"]).collect();
    let expected: &[&str] = match case.field {
        "" => &[],
        field => &[field],
    };
    let is_explained = errors.iter().all(|error| error["message"] != "");
    let is_right = status == case.status && is_problem && named == expected && is_explained;
    (!is_right).then(|| format!("{}: {status} {body}", case.name))
}

/// What is stored: every email, the templates, and the changes that were made.
async fn rows(server: &Posthaste) -> Vec<Value> {
    let mut stored = Vec::new();
    for path in ["/v1/stats", "/v1/emails", "/v1/templates", "/v1/audit"] {
        stored.push(get(server, path).await.body);
    }
    assert_eq!(stored[0]["accepted"], 0, "{}", stored[0]);
    assert_eq!(stored[1]["data"], json!([]));
    stored
}
