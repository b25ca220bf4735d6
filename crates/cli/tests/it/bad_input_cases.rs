//! The list of what is refused: what is wrong, the status and the field that the answer must name.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::email_to;

/// A request with one thing wrong, and what must come back.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) status: u16,
    /// Empty if it is about no field.
    pub(crate) field: &'static str,
}

/// Everything that is refused.
pub(crate) fn cases() -> Vec<Case> {
    let all = [
        header_injection(),
        addresses(),
        content(),
        keys(),
        templates(),
        policies(),
        json_itself(),
        sizes(),
    ];
    all.into_iter().flatten().collect()
}

/// An email with these fields changed; null takes one away.
fn email(patch: Value) -> Value {
    let mut email = email_to("ann@example.org");
    for (name, value) in patch.as_object().unwrap() {
        if value.is_null() {
            email.as_object_mut().unwrap().remove(name);
        } else {
            email[name] = value.clone();
        }
    }
    email
}

fn case(name: &'static str, patch: Value, field: &'static str) -> Case {
    raw(name, email(patch).to_string(), 422, field)
}

fn raw(name: &'static str, body: impl Into<Vec<u8>>, status: u16, field: &'static str) -> Case {
    Case {
        name,
        method: Method::POST,
        path: "/v1/emails",
        headers: Vec::new(),
        body: body.into(),
        status,
        field,
    }
}

/// A template that is not saved.
fn template(name: &'static str, content: Value, field: &'static str) -> Case {
    Case {
        method: Method::PUT,
        path: "/v1/templates/bad",
        ..raw(name, content.to_string(), 422, field)
    }
}

#[rustfmt::skip]
fn header_injection() -> Vec<Case> {
    vec![
        case("CR LF in the subject", json!({"subject": "a\r\nBcc: x@y.z"}), "subject"),
        case("NUL in the subject", json!({"subject": "a\u{0}b"}), "subject"),
        case("LF alone in the subject", json!({"subject": "a\nb"}), "subject"),
        case("an encoded word in the subject", json!({"subject": "=?utf-8?q?a=0d=0aBcc:_x?="}), "subject"),
        case("LF in a name", json!({"to": ["A\nB <a@example.org>"]}), "to[0]"),
        case("an encoded word in a name", json!({"from": "=?utf-8?b?DQo=?= <a@example.org>"}), "from"),
        case("NUL in a name", json!({"from": "A\u{0}B <a@example.org>"}), "from"),
        case("CR in an address", json!({"to": ["a@example.org", "b\r@example.org"]}), "to[1]"),
        case("a quoted local part", json!({"cc": "\"a\\\r\nb\"@example.org"}), "cc[0]"),
        case("NUL in a quoted local part", json!({"to": "\"a\u{0}b\"@example.org"}), "to[0]"),
        case("LF in reply_to", json!({"reply_to": "a@example.org\nBcc: x@y.z"}), "reply_to[0]"),
        case("LF in a header's value", json!({"headers": {"X-A": "1\n2"}}), "headers.X-A"),
        case("NUL in a header's value", json!({"headers": {"X-A": "1\u{0}2"}}), "headers.X-A"),
        case("a header's name with a colon", json!({"headers": {"X:A": "1"}}), "headers.X:A"),
        case("CR LF in a header's name", json!({"headers": {"X-A\r\nBcc": "1"}}), "headers.X-A\\r\\nBcc"),
        case("an encoded word in a header", json!({"headers": {"X-A": "=?utf-8?q?=0a?="}}), "headers.X-A"),
        case("CR LF in a file's name", json!({"attachments": [{"filename": "a\r\n.txt", "content": ""}]}), "attachments[0].filename"),
        case("NUL in a file's name", json!({"attachments": [{"filename": "a\u{0}", "content": ""}]}), "attachments[0].filename"),
        case("an encoded word in a file's name", json!({"attachments": [{"filename": "=?utf-8?q?a=0d=0a?=", "content": ""}]}), "attachments[0].filename"),
        case("LF in a content id", json!({"attachments": [{"filename": "a", "content": "", "content_id": "a\nb"}]}), "attachments[0].content_id"),
        case("CR LF in a media type", json!({"attachments": [{"filename": "a", "content_type": "text/plain\r\nX: y", "content": ""}]}), "attachments[0].content_type"),
        case("a header that is ours: From", json!({"headers": {"from": "a@example.org"}}), "headers.from"),
        case("a header that is ours: To", json!({"headers": {"TO": "a@example.org"}}), "headers.TO"),
        case("a header that is ours: Bcc", json!({"headers": {"Bcc": "a@example.org"}}), "headers.Bcc"),
        case("a header that is ours: Date", json!({"headers": {"Date": "now"}}), "headers.Date"),
        case("a header that is ours: Subject", json!({"headers": {"Subject": "x"}}), "headers.Subject"),
        case("a header that is ours: MIME-Version", json!({"headers": {"MIME-Version": "1.0"}}), "headers.MIME-Version"),
        case("a header that is ours: Message-ID", json!({"headers": {"Message-ID": "<a@b>"}}), "headers.Message-ID"),
        case("a header that is ours: Content-Type", json!({"headers": {"Content-Type": "text/html"}}), "headers.Content-Type"),
        case("a header that is ours: Content-Transfer-Encoding", json!({"headers": {"content-transfer-encoding": "8bit"}}), "headers.content-transfer-encoding"),
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
        case("no local part", json!({"to": "@example.org"}), "to[0]"),
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
        case("metadata that is too large", json!({"metadata": {"a": "b".repeat(20_000)}}), "metadata"),
    ]
}

#[rustfmt::skip]
fn keys() -> Vec<Case> {
    let header = |name, key: &str| Case {
        headers: vec![("idempotency-key", key.to_owned())],
        ..case(name, json!({}), "message_key")
    };
    vec![
        case("an empty key", json!({"message_key": ""}), "message_key"),
        case("a key of 256 octets", json!({"message_key": "k".repeat(256)}), "message_key"),
        case("a key with a control character", json!({"message_key": "a\tb"}), "message_key"),
        case("a key with NUL", json!({"message_key": "a\u{0}"}), "message_key"),
        header("an empty key as a header", ""),
        header("a key of 256 octets as a header", &"k".repeat(256)),
        header("a key with a tab as a header", "a\tb"),
    ]
}

/// `greeting`, `endless` and `flood` are there: see the scenario.
#[rustfmt::skip]
fn templates() -> Vec<Case> {
    let list: Vec<u32> = (0..1_000).collect();
    let with = |name, template: &str, field| case(name, json!({"text": null, "template": template, "variables": {"list": list}}), field);
    let text = |name, text: &str| template(name, json!({"subject": "s", "text": text}), "text");
    vec![
        with("an unknown template", "welcome", "template"),
        with("a missing variable", "greeting", "variables.name"),
        with("a loop without end", "endless", "template"),
        with("output without end", "flood", "template"),
        case("variables beyond their size", json!({"text": null, "template": "greeting", "variables": {"name": "z".repeat(600_000)}}), "variables"),
        template("no subject", json!({"text": "t"}), "subject"),
        template("a body that does not parse", json!({"subject": "s", "text": "{% if %}"}), "text"),
        text("a template that includes a file", "{% include '/etc/passwd' %}"),
        text("a template that imports", "{% import 'x' as y %}"),
        text("a template that extends another", "{% extends 'greeting' %}"),
        text("a template that asks for the environment", "{{ env('HOME') }}"),
        text("a template that looks around", "{{ debug() }}"),
        text("much out of little", "{{ 'x' * 4000000000 }}"),
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
        case("a negative duration", own(json!(1), json!({"schedule": ["-1m"]})), "retry_policy.backoff.schedule[0]"),
        case("delays that overflow together", own(json!(100), json!({"base": "30d", "factor": 1e308})), "retry_policy.backoff.factor"),
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

/// What is compressed is refused by its header, however large it would become.
#[rustfmt::skip]
fn sizes() -> Vec<Case> {
    let bomb = Case {
        headers: vec![("content-encoding", "gzip".to_owned())],
        ..raw("a gzip bomb", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), 415, "")
    };
    let large = |name, patch| raw(name, email(patch).to_string(), 413, "");
    vec![
        bomb,
        large("a text over 25 MiB", json!({"text": "x".repeat(26 * 1024 * 1024)})),
        large("an attachment over 25 MiB", json!({"attachments": [{"filename": "a", "content": "YWFh".repeat(7 * 1024 * 1024)}]})),
    ]
}
