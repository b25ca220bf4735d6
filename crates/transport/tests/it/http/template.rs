//! Any other API that takes JSON.

use posthaste_core::answer::Provider;
use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::port::Transport;
use posthaste_transport::{HttpConfig, HttpConfigError, HttpTransport, ProviderConfig};
use serde_json::json;

use crate::fixture::{OpenGate, email_with, failed};
use crate::http::letter::{
    HTML, ICS, PICTURE, TEXT, accepted, base64, refused, to_all, to_bob, transport,
};
use crate::http::server::{Say, Server, answer};

#[derive(Clone)]
struct Api {
    url: String,
    method: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
    id: Option<&'static str>,
    error: Option<&'static str>,
    key: Option<&'static str>,
    honours_key: bool,
}

impl Api {
    fn at(url: String) -> Self {
        Self {
            url,
            method: None,
            headers: vec![("X-Api-Key", "secret-key")],
            body: r#"{"subject": {{ subject }}}"#,
            id: Some("/data/id"),
            error: Some("/error/code"),
            key: None,
            honours_key: false,
        }
    }

    fn config(self) -> ProviderConfig {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let headers = self.headers.into_iter();
        ProviderConfig::Http {
            url: self.url,
            method: owned(self.method),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
            body_template: self.body.to_owned(),
            id_pointer: owned(self.id),
            error_pointer: owned(self.error),
            idempotency_header: owned(self.key),
            honours_key: self.honours_key,
        }
    }
}

#[tokio::test]
async fn every_value_stands_in_the_body_as_json() {
    let body = r#"{
        "id": {{ email_id }}, "attempt": {{ attempt|tojson }}, "key": {{ idempotency_key }},
        "from": {{ from.formatted }}, "name": {{ from.name }},
        "to": {{ to|map(attribute="address")|list }}, "cc": {{ cc }},
        "bcc": [{% for one in bcc %}{{ one.address }}{% if not loop.last %},{% endif %}{% endfor %}],
        "reply_to": {{ reply_to[0].address }},
        "subject": {{ subject|tojson }}, "text": {{ text }}, "html": {{ html }},
        "headers": {{ headers }}, "message_id": {{ message_id }},
        "calendar": {{ calendar }}, "picture": {{ attachments[0] }}, "raw": {{ raw_base64 }}
    }"#;
    let mut server = Server::start([answer(201, json!({"data": {"id": 42}}))]).await;
    let api = Api {
        body,
        method: Some("PUT"),
        key: Some("X-Request-Key"),
        ..Api::at(format!("{}/send?account=7", server.url()))
    };
    let mut email = to_all();
    email.attempt_number = 3;
    let results = transport(api.config())
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(results, vec![accepted("HTTP 201: accepted", Some("42")); 4]);
    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("PUT", "/send?account=7")
    );
    assert_eq!(asked.header("x-api-key"), Some("secret-key"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let key = asked.header("x-request-key").unwrap();
    assert_eq!(
        asked.json(),
        json!({
            "id": email.email_id.to_string(),
            "attempt": 3,
            "key": key,
            "from": "=?utf-8?B?Wm/DqywgZnJvbSB0aGUgc2hvcA==?= <zoe@example.org>",
            "name": "Zoë, from the shop",
            "to": ["jane@example.org", "bob@example.org"],
            "cc": [{
                "name": "Çağrı",
                "address": "cc@example.org",
                "formatted": "=?utf-8?B?w4dhxJ9yxLE=?= <cc@example.org>",
            }],
            "bcc": ["hidden@example.org"],
            "reply_to": "desk@example.org",
            "subject": "Grüße ✓",
            "text": TEXT,
            "html": HTML,
            "headers": {
                "X-Trip": "Zürich",
                "List-Unsubscribe": "<https://example.org/u?a=1>",
            },
            "message_id": "<id-1@example.org>",
            "calendar": {"method": "REQUEST", "content": ICS},
            "picture": {
                "filename": "image-1.png",
                "content_type": "image/png",
                "content": base64(PICTURE),
                "content_id": "logo@example.org",
            },
            "raw": base64(&email.content),
        })
    );
}

#[tokio::test]
async fn nothing_in_an_email_becomes_a_part_of_the_body_s_structure() {
    let mut server = Server::start([answer(200, "")]).await;
    let subject = r#"","admin":true,"x":"{{ email_id }}</script>\"#;
    let content = mail_builder::MessageBuilder::new()
        .from("ann@example.org")
        .to("bob@example.org")
        .subject(subject)
        .text_body("x")
        .write_to_vec()
        .unwrap();
    let email = email_with(&["bob@example.org"], &content);
    let api = Api::at(server.url());
    transport(api.config())
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(server.asked().await.json(), json!({"subject": subject}));
}

#[tokio::test]
async fn refusals_carry_the_name_at_the_pointer() {
    let text = r#"{"error":{"code":"over_quota","detail":"no"}}"#;
    let server = Server::start([answer(402, text), answer(500, "oops")]).await;
    let transport = transport(Api::at(server.url()).config());
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(
        results,
        [refused(Provider::Http, 402, Some("over_quota"), text)]
    );
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(results, [refused(Provider::Http, 500, None, "oops")]);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_only_where_the_key_is_honoured() {
    let mut server = Server::start([Say::HangUp, Say::HangUp]).await;
    let lost = Cause::AnswerLost(Cause::Disconnected.to_string());
    for (honours_key, cause) in [(true, lost), (false, Cause::Disconnected)] {
        let api = Api {
            key: Some("Idempotency-Key"),
            honours_key,
            ..Api::at(server.url())
        };
        let email = to_bob();
        let results = transport(api.config())
            .send(&email, &OpenGate::default())
            .await;
        assert_eq!(results, [failed(Stage::Request, cause)]);
        let asked = server.asked().await;
        assert_eq!(
            asked.header("idempotency-key"),
            Some(email.email_id.to_string().as_str())
        );
    }
}

#[tokio::test]
async fn an_email_that_the_template_cannot_render_does_not_reach_the_gate() {
    let mut server = Server::start([]).await;
    let api = Api {
        body: r#"{"method": {{ calendar.method }}}"#,
        ..Api::at(server.url())
    };
    let gate = OpenGate::default();
    let results = transport(api.config()).send(&to_bob(), &gate).await;
    let text = format!("{results:?}");
    assert!(
        text.contains("Body") && text.contains("NotSupported") && text.contains("body_template"),
        "{text}"
    );
    assert_eq!(gate.passed(), 0);
    server.expect_no_more();
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let at = || Api::at("https://example.org/send".to_owned());
    let error = |api: Api| {
        HttpTransport::new(HttpConfig::new("api", api.config()))
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(
        error(Api {
            method: Some("GET"),
            ..at()
        }),
        HttpConfigError::Method
    );
    assert_eq!(
        error(Api {
            honours_key: true,
            ..at()
        }),
        HttpConfigError::NoKeyToHonour
    );
    assert_eq!(
        error(Api {
            key: Some("no header"),
            ..at()
        }),
        HttpConfigError::IdempotencyHeader
    );
    assert_eq!(
        error(Api {
            id: Some("id"),
            ..at()
        }),
        HttpConfigError::Pointer("id_pointer")
    );
    assert_eq!(
        error(Api {
            error: Some("code"),
            ..at()
        }),
        HttpConfigError::Pointer("error_pointer")
    );
    assert_eq!(
        error(Api {
            headers: vec![("Content-Type", "text/plain")],
            ..at()
        }),
        HttpConfigError::OwnHeader("Content-Type".to_owned())
    );
    assert_eq!(
        error(Api {
            headers: vec![("X-Key", "secret\n")],
            ..at()
        }),
        HttpConfigError::HeaderValue("X-Key".to_owned())
    );
    for body in [
        "{{ nothing }}",
        "{{ subject",
        "not json",
        "{\"subject\": \"{{ subject }}\"}",
        "{% for n in range(100000) %}{% for m in range(100000) %}1{% endfor %}{% endfor %}",
    ] {
        let error = error(Api { body, ..at() });
        assert!(
            matches!(error, HttpConfigError::Template(_)),
            "{body}: {error}"
        );
    }
}
