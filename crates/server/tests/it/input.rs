//! Every class of input that FAULTS.md wants refused.

use axum::body::Body;
use posthaste_server::Limits;
use serde_json::{Value, json};

use crate::fixture::{Server, email, local};

/// What is sent, and what must come back: the status and the field that is named.
struct Case {
    name: &'static str,
    body: Vec<u8>,
    status: u16,
    field: &'static str,
}

fn case(name: &'static str, patch: Value, field: &'static str) -> Case {
    raw(name, email(patch).to_string(), 422, field)
}

fn raw(name: &'static str, body: impl Into<Vec<u8>>, status: u16, field: &'static str) -> Case {
    Case {
        name,
        body: body.into(),
        status,
        field,
    }
}

#[rustfmt::skip]
fn header_injection() -> Vec<Case> {
    vec![
        case("CR LF in the subject", json!({"subject": "a\r\nBcc: x@y.z"}), "subject"),
        case("NUL in the subject", json!({"subject": "a\u{0}b"}), "subject"),
        case("an encoded word in the subject", json!({"subject": "=?utf-8?q?a=0d=0aBcc:_x?="}), "subject"),
        case("LF in a name", json!({"to": ["A\nB <a@example.org>"]}), "to[0]"),
        case("an encoded word in a name", json!({"from": "=?utf-8?b?DQo=?= <a@example.org>"}), "from"),
        case("CR in an address", json!({"to": ["a@example.org", "b\r@example.org"]}), "to[1]"),
        case("a quoted local part", json!({"cc": "\"a\\\r\nb\"@example.org"}), "cc[0]"),
        case("LF in reply_to", json!({"reply_to": "a@example.org\nBcc: x@y.z"}), "reply_to[0]"),
        case("LF in a header's value", json!({"headers": {"X-A": "1\n2"}}), "headers.X-A"),
        case("a header's name with a colon", json!({"headers": {"X:A": "1"}}), "headers.X:A"),
        case("CR LF in a header's name", json!({"headers": {"X-A\r\nBcc": "1"}}), "headers.X-A\\r\\nBcc"),
        case("an encoded word in a header", json!({"headers": {"X-A": "=?utf-8?q?=0a?="}}), "headers.X-A"),
        case("CR LF in a file's name", json!({"attachments": [{"filename": "a\r\n.txt", "content": ""}]}), "attachments[0].filename"),
        case("CR LF in a media type", json!({"attachments": [{"filename": "a", "content_type": "text/plain\r\nX: y", "content": ""}]}), "attachments[0].content_type"),
        case("a header that is ours: From", json!({"headers": {"from": "a@example.org"}}), "headers.from"),
        case("a header that is ours: Message-ID", json!({"headers": {"Message-ID": "<a@b>"}}), "headers.Message-ID"),
        case("a header that is ours: Content-Type", json!({"headers": {"Content-Type": "text/html"}}), "headers.Content-Type"),
        case("a header that is ours: DKIM-Signature", json!({"headers": {"DKIM-Signature": "v=1"}}), "headers.DKIM-Signature"),
    ]
}

#[rustfmt::skip]
fn addresses() -> Vec<Case> {
    let long_local = format!("{}@example.org", "a".repeat(65));
    let long_domain = format!("a@{}.org", ["b".repeat(50).as_str(); 5].join("."));
    let many: Vec<String> = (0..1_001).map(|n| format!("a{n}@example.org")).collect();
    let (one_half, other_half) = many.split_at(600);
    vec![
        case("an empty address", json!({"to": ""}), "to[0]"),
        case("no domain", json!({"to": "ann"}), "to[0]"),
        case("an empty domain", json!({"to": "ann@"}), "to[0]"),
        case("two @", json!({"to": "a@b@example.org"}), "to[0]"),
        case("a comment", json!({"to": "a(b)@example.org"}), "to[0]"),
        case("a group", json!({"to": "friends: a@example.org;"}), "to[0]"),
        case("a list in one text", json!({"to": "a@example.org, b@example.org"}), "to[0]"),
        case("a local part of 65 octets", json!({"bcc": long_local}), "bcc[0]"),
        case("a domain that is too long", json!({"to": long_domain}), "to[0]"),
        case("an invalid IDN", json!({"to": "a@xn--zzzzzz99999.example"}), "to[0]"),
        case("no sender", json!({"from": null}), "from"),
        case("no recipient", json!({"to": null}), "to"),
        case("an empty list of recipients", json!({"to": []}), "to"),
        case("more than 1000 in a list", json!({"to": many}), "to"),
        case("more than 1000 altogether", json!({"to": one_half, "cc": other_half}), "to"),
    ]
}

#[rustfmt::skip]
fn content() -> Vec<Case> {
    vec![
        case("no body and no template", json!({"text": null}), "text"),
        case("NUL in the text", json!({"text": "a\u{0}"}), "text"),
        case("an unknown template", json!({"text": null, "template": "welcome"}), "template"),
        case("variables without a template", json!({"variables": {"a": 1}}), "variables"),
        case("base64 that is not", json!({"attachments": [ {"filename": "a", "content": "YQ=="}, {"filename": "b", "content": "%%%"}]}), "attachments[1].content"),
        case("a calendar that is not", json!({"calendar": {"content": "hello", "method": "REQUEST"}}), "calendar.content"),
        case("a calendar of another method", json!({"calendar": {"content": "BEGIN:VCALENDAR\nPRODID:x\nVERSION:2.0\nMETHOD:CANCEL\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR", "method": "REQUEST"}}), "calendar.content"),
        case("a method that iTIP does not know", json!({"calendar": {"content": "BEGIN:VCALENDAR\nPRODID:x\nVERSION:2.0\nMETHOD:INVITE\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR", "method": "INVITE"}}), "calendar.method"),
        case("a time that is not RFC 3339", json!({"send_at": "tomorrow"}), "send_at"),
        case("the year 9999", json!({"send_at": "9999-01-01T00:00:00Z"}), "send_at"),
        case("expires_at before send_at", json!({"send_at": in_hours(2), "expires_at": in_hours(1)}), "expires_at"),
        case("expires_at in the past", json!({"expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
        case("expire_after that is no length of time", json!({"expire_after": "soon"}), "expire_after"),
        case("expire_after of nothing", json!({"expire_after": "0s"}), "expire_after"),
        case("expire_after beyond a year", json!({"expire_after": "400d"}), "expire_after"),
        case("expire_after beside expires_at", json!({"expire_after": "1h", "expires_at": in_hours(1)}), "expire_after"),
        case("expire_after that is no text", json!({"expire_after": 600}), "expire_after"),
        case("an unknown route", json!({"route": "bakcup"}), "route"),
        case("an empty route", json!({"route": ""}), "route"),
        case("a route that is no text", json!({"route": ["backup"]}), "route"),
        case("an unknown priority", json!({"priority": "urgent"}), "priority"),
        case("an unknown delivery", json!({"delivery": "pigeon"}), "delivery"),
        case("a delivery by another case", json!({"delivery": "Inline"}), "delivery"),
        case("an empty delivery", json!({"delivery": ""}), "delivery"),
        case("a delivery that is no text", json!({"delivery": true}), "delivery"),
        case("an empty key", json!({"message_key": ""}), "message_key"),
        case("a key of 256 octets", json!({"message_key": "k".repeat(256)}), "message_key"),
        case("a key with a control character", json!({"message_key": "a\tb"}), "message_key"),
        case("metadata that is too large", json!({"metadata": {"a": "b".repeat(20_000)}}), "metadata"),
    ]
}

fn in_hours(hours: i64) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    at.to_string()
}

#[rustfmt::skip]
fn policies() -> Vec<Case> {
    let own = |max_attempts: Value, backoff: Value| json!({"retry_policy": {"max_attempts": max_attempts, "backoff": backoff}});
    let schedule = || json!({"schedule": ["1m"]});
    vec![
        case("an unknown policy", json!({"retry_policy": "never"}), "retry_policy"),
        case("zero attempts", own(json!(0), schedule()), "retry_policy.max_attempts"),
        case("negative attempts", own(json!(-1), schedule()), "retry_policy.max_attempts"),
        case("too many attempts", own(json!(101), schedule()), "retry_policy.max_attempts"),
        case("attempts beyond any number", own(json!(u64::MAX), schedule()), "retry_policy.max_attempts"),
        case("half an attempt", own(json!(1.5), schedule()), "retry_policy.max_attempts"),
        case("no attempts at all", json!({"retry_policy": {"backoff": schedule()}}), "retry_policy.max_attempts"),
        case("an empty schedule", own(json!(1), json!({"schedule": []})), "retry_policy.backoff.schedule"),
        case("no duration", own(json!(1), json!({"schedule": ["1m", "soon"]})), "retry_policy.backoff.schedule[1]"),
        case("a duration that overflows", own(json!(1), json!({"base": "99999999999999999999d"})), "retry_policy.backoff.base"),
        case("a delay over the cap", own(json!(1), json!({"schedule": ["31d"]})), "retry_policy.backoff.schedule"),
        case("no backoff", own(json!(1), json!({})), "retry_policy.backoff"),
        case("two backoffs", own(json!(1), json!({"schedule": ["1m"], "base": "1m"})), "retry_policy.backoff"),
        case("an unknown field of a policy", json!({"retry_policy": {"max_attempt": 1, "backoff": {"base": "1m"}}}), "retry_policy.max_attempt"),
        case("an unknown on_unknown", json!({"retry_policy": {"max_attempts": 1, "backoff": {"base": "1m"}, "on_unknown": "guess"}}), "retry_policy.on_unknown"),
    ]
}

#[rustfmt::skip]
fn json_itself() -> Vec<Case> {
    let valid = r#""from":"a@example.org","to":"b@example.org","text":"x""#;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = format!(r#"{{{valid},"variables":{{"a":{}}}}}"#, nested(5_000));
    let many = format!(
        r#"{{{valid},"variables":{{"a":[{}0]}}}}"#,
        "0,".repeat(200_000)
    );
    vec![
        raw("nothing", "", 400, ""),
        raw("no JSON", "hello", 400, ""),
        raw("JSON with something behind it", format!("{{{valid}}} x"), 400, ""),
        raw("JSON that ends early", r#"{"from":"a"#, 400, "from"),
        raw("a list", format!("[{{{valid}}}]"), 422, ""),
        raw("an email as a list of its values", r#"["k", "a@example.org", "b@example.org"]"#, 422, ""),
        raw("a text", "\"x\"", 422, ""),
        raw("a depth bomb", nested(100_000), 422, ""),
        raw("a depth bomb in a field", deep, 400, "variables"),
        raw("a flood of values", many, 422, "variables"),
        raw("a key twice", format!(r#"{{{valid},"text":"y"}}"#), 422, "text"),
        raw("a key twice in metadata", format!(r#"{{{valid},"metadata":{{"a":"1","a":"2"}}}}"#), 422, "metadata.a"),
        raw("a key twice in headers", format!(r#"{{{valid},"headers":{{"X-A":"1","X-A":"1"}}}}"#), 422, "headers.X-A"),
        raw("a key twice in variables", format!(r#"{{{valid},"variables":{{"a":1,"a":2}}}}"#), 422, "variables.a"),
        raw("a key twice deep in variables", format!(r#"{{{valid},"variables":{{"a":[{{"b":1,"b":2}}]}}}}"#), 422, "variables.a[0].b"),
        raw("a key twice in what has the same name", format!(r#"{{{valid},"variables":{{"a":{{"a":1,"a":2}}}}}}"#), 422, "variables.a.a"),
        raw("a key twice in an attachment", format!(r#"{{{valid},"attachments":[{{"filename":"a","content":"","content":""}}]}}"#), 422, "attachments[0].content"),
        raw("a lone surrogate", r#"{"from":"a@example.org","to":"b@example.org","text":"\ud800"}"#, 400, "text"),
        raw("what is not UTF-8", b"{\"text\":\"\xff\"}".to_vec(), 400, "text"),
        raw("an unknown field", format!(r#"{{{valid},"subjct":"x"}}"#), 422, "subjct"),
        raw("an unknown field of an attachment", format!(r#"{{{valid},"attachments":[{{"filename":"a","content":"","name":"a"}}]}}"#), 422, "attachments[0].name"),
        raw("an unknown field with the name of its parent", format!(r#"{{{valid},"calendar":{{"calendar":1}}}}"#), 422, "calendar.calendar"),
        raw("a field without a name", format!(r#"{{{valid},"":1}}"#), 422, r#""""#),
        raw("a field named as a dot", format!(r#"{{{valid},".":1}}"#), 422, "."),
        raw("a field without a name inside of another", format!(r#"{{{valid},"calendar":{{"":1}}}}"#), 422, r#"calendar."""#),
        raw("an attachment as a list", format!(r#"{{{valid},"attachments":[["a",null,""]]}}"#), 422, "attachments[0]"),
        raw("an attachment without content", format!(r#"{{{valid},"attachments":[{{"filename":"a"}}]}}"#), 422, "attachments[0].content"),
        case("a number for a text", json!({"text": 5}), "text"),
        case("a number for an address", json!({"to": ["a@example.org", 5]}), "to[1]"),
        case("an object for addresses", json!({"to": {"a": 1}}), "to"),
        case("a number in metadata", json!({"metadata": {"a": 1}}), "metadata.a"),
        case("a list for headers", json!({"headers": ["a"]}), "headers"),
        case("a number for a policy", json!({"retry_policy": 5}), "retry_policy"),
        case("a text for attachments", json!({"attachments": "a"}), "attachments"),
    ]
}

#[tokio::test]
async fn bad_input_is_refused_by_the_name_of_its_field_and_nothing_is_stored() {
    let server = Server::start();
    let all = [
        header_injection(),
        addresses(),
        content(),
        policies(),
        json_itself(),
    ];
    for case in all.into_iter().flatten() {
        let answer = server.post_text("/v1/emails", case.body).await;
        assert_eq!(
            answer.status,
            case.status,
            "{}: {}",
            case.name,
            answer.text()
        );
        answer.is_problem(case.status);
        let fields = answer.fields();
        let expected: &[&str] = if case.field.is_empty() {
            &[]
        } else {
            &[case.field]
        };
        assert_eq!(fields, expected, "{}: {}", case.name, answer.text());
    }
    let statistics = server.get("/v1/stats").await.json();
    assert_eq!(statistics["accepted"], 0);
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let server = Server::start();
    let wrong = json!({"from": "nobody", "to": ["a@example.org", "b"], "priority": "urgent"});
    let answer = server.post("/v1/emails", &wrong).await;
    assert_eq!(
        answer.is_problem(422).fields(),
        ["from", "to[1]", "text", "priority"]
    );
}

#[tokio::test]
async fn an_unknown_field_gets_the_nearest_known_one_named() {
    let server = Server::start();
    for (given, meant) in [
        ("subjct", "subject"),
        ("metdata", "metadata"),
        ("reply-to", "reply_to"),
    ] {
        let answer = server.post("/v1/emails", &email(json!({given: "x"}))).await;
        let message = answer.is_problem(422).json()["errors"][0]["message"].to_string();
        assert!(message.contains(&format!("`{meant}`")), "{message}");
    }
    let answer = server
        .post("/v1/emails", &email(json!({"zzzzzzzzzz": 1})))
        .await;
    let message = answer.json()["errors"][0]["message"].to_string();
    assert!(
        message.contains("known are message_key, from, to"),
        "{message}"
    );
}

#[tokio::test]
async fn what_looks_odd_but_is_fine_is_accepted() {
    let server = Server::start();
    for patch in [
        json!({"text": "a\r\n.\r\nb"}),
        json!({"text": "x".repeat(5_000)}),
        json!({"to": "ann@bücher.example"}),
        json!({"to": ["Ann <ann@example.org>", "\"Doe, Bob\" <bob@example.org>"], "cc": [], "bcc": "c@example.org"}),
        json!({"subject": null}),
        json!({"delivery": "queued"}),
        json!({"send_at": "2020-01-01T00:00:00Z"}),
        json!({"retry_policy": "notification"}),
        json!({"retry_policy": {"max_attempts": 3, "backoff": {"base": "30s"}, "jitter": "1s", "on_unknown": "hold"}}),
        json!({"attachments": [{"filename": "a.txt", "content": "YQ=="}], "html": "<p>x</p>"}),
    ] {
        server.accepted(patch).await;
    }
    let text = r#"{"from":"a@example.org","to":"b@example.org","text":"x","cc":null,"html":null,"headers":null,"retry_policy":null}"#;
    let answer = server.post_text("/v1/emails", text).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[tokio::test]
async fn only_json_as_it_is_is_taken() {
    let server = Server::start();
    let body = || Body::from(email(json!({})).to_string());
    let with = |headers: &[(&str, &str)]| {
        let mut request = local("POST", "/v1/emails");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body()).unwrap()
    };
    for headers in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ],
        &[
            ("content-type", "application/json"),
            ("content-encoding", "br"),
        ],
    ] {
        server.send(with(headers)).await.is_problem(415);
    }
    for content_type in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.mail+json",
    ] {
        let answer = server.send(with(&[("content-type", content_type)])).await;
        assert_eq!(answer.status, 202, "{content_type}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_it_says_its_size_or_not() {
    let server = Server::start_with(Limits {
        body_bytes: 10_000,
        ..Limits::default()
    });
    let large = email(json!({"text": "x".repeat(10_000)})).to_string();
    server
        .post_text("/v1/emails", large.clone())
        .await
        .is_problem(413);

    let with_length = local("POST", "/v1/emails")
        .header("content-type", "application/json")
        .header("content-length", large.len().to_string())
        .body(Body::from(large.clone()))
        .unwrap();
    server.send(with_length).await.is_problem(413);

    let pieces = large
        .into_bytes()
        .chunks(1_000)
        .map(<[u8]>::to_vec)
        .collect::<Vec<_>>();
    let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    server
        .post_text("/v1/emails", Body::from_stream(stream))
        .await
        .is_problem(413);
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 0);
}

#[tokio::test]
async fn an_email_over_25_mebibytes_is_413() {
    let server = Server::start();
    let large = email(json!({"text": "x".repeat(26 * 1024 * 1024)})).to_string();
    server.post_text("/v1/emails", large).await.is_problem(413);
}

#[tokio::test]
async fn a_body_in_many_pieces_is_put_together() {
    let server = Server::start();
    let body = email(json!({"text": "x".repeat(300_000)})).to_string();
    let pieces = body
        .into_bytes()
        .chunks(7_000)
        .map(<[u8]>::to_vec)
        .collect::<Vec<_>>();
    let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let answer = server
        .post_text("/v1/emails", Body::from_stream(stream))
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}
