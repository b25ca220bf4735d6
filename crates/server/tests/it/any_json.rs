//! Any JSON, and what only looks like it: taken, or refused by the name of the field; and what is
//! refused leaves nothing behind.

use std::fmt;

use axum::body::Body;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::Value;

use crate::fixture::{Answer, Server, local};

/// The fields of an email, and some inside of them.
#[rustfmt::skip]
const FIELDS: [&str; 38] = [
    "message_key", "from", "to", "cc", "bcc", "reply_to", "subject", "text", "html", "template",
    "variables", "headers", "attachments", "calendar", "send_at", "expires_at", "expire_after",
    "route", "retry_policy", "priority", "metadata", "delivery", "filename", "content_type",
    "content", "content_id", "method", "max_attempts", "backoff", "jitter", "on_unknown",
    "max_unknown_resends", "schedule", "base", "factor", "cap", "X-A", "emails",
];

/// Texts that some field understands.
#[rustfmt::skip]
const WORDS: [&str; 21] = [
    "a@example.org", "Ann <ann@example.org>", "high", "inline", "queued", "email", "backup",
    "2100-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "10m", "0s", "99999999999999999999d", "hold",
    "YQ==", "text/plain", "REQUEST", "BEGIN:VCALENDAR", "key", "a\r\nb", "\0", "",
];

/// What JSON has for numbers, and beyond.
#[rustfmt::skip]
const NUMBERS: [&str; 12] = [
    "0", "-0", "1.5", "1e3", "1e999", "-1e-999", "18446744073709551616", "9223372036854775808",
    "123456789012345678901234567890.5", "01", "NaN", "-",
];

/// What is not quite a text.
#[rustfmt::skip]
const ODD_TEXTS: [&str; 6] = [
    r#""\ud800""#, r#""\udc00\ud800""#, r#""\u12""#, r#""\x""#, r#""a"#, "\"\t\"",
];

/// JSON as it is written, which a parsed value could not be: keys stand twice, texts are broken.
#[derive(Debug, Clone)]
enum Node {
    Plain(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::List(nodes) => {
                let nodes: Vec<_> = nodes.iter().map(Self::to_string).collect();
                write!(f, "[{}]", nodes.join(","))
            }
            Self::Object(fields) => {
                let field = |(name, node): &(String, Self)| format!("{}:{node}", quoted(name));
                let fields: Vec<_> = fields.iter().map(field).collect();
                write!(f, "{{{}}}", fields.join(","))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn a_name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(&FIELDS[..]).prop_map(str::to_owned),
        1 => "[a-z_.\\[\\]`]{0,12}",
        1 => any::<String>(),
    ]
}

fn a_node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        1 => select(&["null", "true", "false"][..]).prop_map(str::to_owned),
        6 => select(&WORDS[..]).prop_map(quoted),
        2 => any::<String>().prop_map(|text| quoted(&text)),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        2 => select(&NUMBERS[..]).prop_map(str::to_owned),
        1 => select(&ODD_TEXTS[..]).prop_map(str::to_owned),
        1 => (0_usize..300).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ];
    leaf.prop_map(Node::Plain)
        .prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Node::List),
                vec((a_name(), inner), 0..4).prop_map(Node::Object),
            ]
        })
}

/// An email that is in order but for some fields: in their places, or there a second time.
fn an_email() -> impl Strategy<Value = Node> {
    let field = (a_name(), a_node(), prop::bool::weighted(0.9));
    vec(field, 0..4).prop_map(|others| {
        let text = |name: &str, text: &str| (name.to_owned(), Node::Plain(quoted(text)));
        let mut fields = vec![
            text("from", "shop@example.org"),
            text("to", "ann@example.net"),
            text("text", "Thank you."),
        ];
        for (name, node, is_instead) in others {
            if is_instead {
                fields.retain(|(known, _)| *known != name);
            }
            fields.push((name, node));
        }
        Node::Object(fields)
    })
}

/// An email, something else, or something that ends early or late.
fn a_body() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![8 => an_email(), 1 => a_node()];
    let text = text.prop_map(|node| node.to_string().into_bytes());
    prop_oneof![
        8 => text.clone(),
        1 => (text.clone(), any::<Index>()).prop_map(|(mut text, end)| {
            text.truncate(end.index(text.len().max(1)));
            text
        }),
        1 => (text, vec(any::<u8>(), 0..4), any::<Index>()).prop_map(|(mut text, bytes, at)| {
            let at = at.index(text.len() + 1);
            text.splice(at..at, bytes);
            text
        }),
    ]
}

/// A problem names what is wrong, unless the body as a whole is.
fn assert_names_a_field(problem: &Value, body: &str) {
    let errors = problem["errors"].as_array().unwrap();
    for error in errors {
        for part in ["field", "message"] {
            assert!(!error[part].as_str().unwrap().is_empty(), "{problem}");
        }
    }
    assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
    let is_object = body.trim_start().starts_with('{');
    if problem["status"] == 422 && is_object {
        assert!(!errors.is_empty(), "{problem} about {body}");
    }
}

/// A server that is asked again and again, and counts what it has.
struct Subject {
    runtime: tokio::runtime::Runtime,
    server: Server,
}

impl Subject {
    fn start() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = {
            let _inside = runtime.enter();
            Server::start()
        };
        Self { runtime, server }
    }

    fn send(&self, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let request = local(method, path).header("content-type", "application/json");
        let request = request.body(Body::from(body)).unwrap();
        self.runtime.block_on(self.server.send(request))
    }

    fn accepted(&self) -> u64 {
        let answer = self.runtime.block_on(self.server.get("/v1/stats"));
        answer.json()["accepted"].as_u64().unwrap()
    }
}

fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
}

#[test]
fn any_body_is_taken_or_refused_by_name_and_nothing_of_it_is_stored() {
    let subject = Subject::start();
    check(600, &a_body(), |body| {
        let before = subject.accepted();
        let answer = subject.send("POST", "/v1/emails", body.clone());
        let stored = subject.accepted() - before;
        let body = String::from_utf8_lossy(&body);
        match answer.status.as_u16() {
            202 => prop_assert_eq!(stored, 1, "{}", body),
            200 => prop_assert_eq!(stored, 0, "{}", body),
            status => {
                prop_assert!(matches!(status, 400 | 422), "{}: {}", body, answer.text());
                prop_assert_eq!(stored, 0, "{}", body);
                assert_names_a_field(&answer.is_problem(status).json(), &body);
            }
        }
        Ok(())
    });
}

#[test]
fn of_any_batch_only_what_is_in_order_is_stored() {
    let subject = Subject::start();
    let emails = vec(prop_oneof![4 => an_email(), 1 => a_node()], 0..5);
    check(200, &emails, |emails| {
        let texts: Vec<String> = emails.iter().map(Node::to_string).collect();
        let body = format!("{{\"emails\":[{}]}}", texts.join(","));
        let before = subject.accepted();
        let answer = subject.send("POST", "/v1/emails/batch", body.clone().into_bytes());
        let stored = subject.accepted() - before;
        if answer.status != 202 {
            prop_assert_eq!(stored, 0, "{}", body);
            let status = answer.status.as_u16();
            prop_assert!(matches!(status, 400 | 422), "{}: {}", body, answer.text());
            assert_names_a_field(&answer.is_problem(status).json(), &body);
            return Ok(());
        }
        let data = answer.json()["data"].as_array().unwrap().clone();
        prop_assert_eq!(data.len(), emails.len());
        // One key, one email: the same may be named twice.
        let ids = data.iter().filter_map(|entry| entry["id"].as_str());
        let ids: std::collections::BTreeSet<_> = ids.collect();
        prop_assert!(stored <= ids.len() as u64, "{}", body);
        for (entry, text) in data.iter().zip(&texts) {
            if entry["id"].is_null() {
                assert_names_a_field(&entry["error"], text);
            }
        }
        Ok(())
    });
}

#[test]
fn no_body_of_any_other_request_makes_the_server_fail() {
    let subject = Subject::start();
    let id = "0198c0de-0000-7000-8000-000000000001";
    let requests = [
        ("PUT", "/v1/templates/welcome".to_owned()),
        ("POST", "/v1/templates/welcome/preview".to_owned()),
        ("POST", "/v1/retry-policies/preview".to_owned()),
        ("POST", "/v1/suppressions".to_owned()),
        ("POST", "/v1/operations".to_owned()),
        ("POST", format!("/v1/emails/{id}/resolve")),
        ("POST", format!("/v1/emails/{id}/retry")),
        ("POST", format!("/v1/dead-letters/{id}/retry")),
    ];
    #[rustfmt::skip]
    let known = [
        "description", "from", "subject", "html", "text", "priority", "retry_policy",
        "route", "variables", "address", "detail", "owner", "action", "filter", "dry_run",
        "ids", "to", "rate_per_second", "fingerprint", "q", "since", "resolution",
        "even_if_expired",
    ];
    let name = prop_oneof![9 => select(known.to_vec()).prop_map(str::to_owned), 1 => a_name()];
    let words = select(vec![
        "{{ a }}",
        "{% if",
        "{{ a | b }}",
        "retry",
        "sent",
        "1h",
    ]);
    let value = prop_oneof![3 => a_node(), 1 => words.prop_map(|word| Node::Plain(quoted(word)))];
    let body = prop_oneof![9 => vec((name, value), 0..5).prop_map(Node::Object), 1 => a_node()];
    check(
        600,
        &(select(requests.to_vec()), body),
        |((method, path), body)| {
            let body = body.to_string();
            let answer = subject.send(method, &path, body.clone().into_bytes());
            let status = answer.status.as_u16();
            prop_assert!(status < 500, "{path}: {body}: {}", answer.text());
            if status >= 400 {
                answer.is_problem(status);
            }
            Ok(())
        },
    );
}
