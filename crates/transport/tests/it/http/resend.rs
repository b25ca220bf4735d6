//! Resend.

use posthaste_core::answer::Provider;
use posthaste_core::port::Transport;
use serde_json::json;

use crate::fixture::{OpenGate, email_with};
use crate::http::letter::{
    HTML, ICS, LATIN, PICTURE, TEXT, accepted, base64, octets, refused, resend, simple, to_all,
    to_bob, transport,
};
use crate::http::server::{Server, answer};

#[tokio::test]
async fn the_documented_request_is_made_and_the_id_kept() {
    let mut server = Server::start([answer(200, json!({"id": "49a3999c"}))]).await;
    let transport = transport(resend(&server));
    let email = to_all();
    let gate = OpenGate::default();
    let results = transport.send(&email, &gate).await;
    assert_eq!(
        results,
        vec![accepted("HTTP 200: accepted", Some("49a3999c")); 4]
    );
    assert_eq!(gate.passed(), 1);
    assert_eq!(transport.name(), "api");

    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/emails")
    );
    assert_eq!(asked.header("authorization"), Some("Bearer re_secret-key"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    // Resend refuses requests without one.
    assert!(
        asked
            .header("user-agent")
            .unwrap()
            .starts_with("posthaste/")
    );
    let key = asked.header("idempotency-key").unwrap();
    assert!(key.starts_with(&format!("{}/", email.email_id)), "{key}");
    assert_eq!(
        asked.json(),
        json!({
            "from": "Zoë from the shop <zoe@example.org>",
            "to": ["=?utf-8?B?RG9lLCBKYW5l?= <jane@example.org>", "Bob <bob@example.org>"],
            "cc": ["=?utf-8?B?w4dhxJ9yxLE=?= <cc@example.org>"],
            "bcc": ["hidden@example.org"],
            "reply_to": ["Desk <desk@example.org>"],
            "subject": "Grüße ✓",
            "text": TEXT,
            "html": HTML,
            "headers": {
                "X-Trip": "Zürich",
                "List-Unsubscribe": "<https://example.org/u?a=1>",
            },
            "tags": [{"name": "posthaste_id", "value": email.email_id.to_string()}],
            "attachments": [
                {
                    "filename": "image-1.png",
                    "content_type": "image/png",
                    "content": base64(PICTURE),
                    "content_id": "logo@example.org",
                },
                {
                    "filename": "Übersicht.pdf",
                    "content_type": "application/pdf",
                    "content": base64(octets()),
                },
                {
                    "filename": "list.csv",
                    "content_type": "text/csv; charset=iso-8859-1",
                    "content": base64(LATIN),
                },
                {
                    "filename": "invite.ics",
                    "content_type": "text/calendar; charset=utf-8; method=REQUEST",
                    "content": base64(ICS),
                },
            ],
        })
    );
    server.expect_no_more();
}

#[tokio::test]
async fn the_key_is_the_email_s_id_and_changes_with_the_recipients_only() {
    let taken = || answer(200, json!({"id": "1"}));
    let mut server = Server::start([taken(), taken(), taken(), taken()]).await;
    let transport = transport(resend(&server));
    let content = simple(&["a@example.org", "b@example.org"], &[]);
    let mut whole = email_with(&["a@example.org", "b@example.org"], &content);
    let id = whole.email_id.to_string();
    let mut keys = Vec::new();
    let mut bodies = Vec::new();
    for recipients in [
        vec![0, 1],
        vec![0, 1], // Another attempt.
        vec![0],
        vec![1],
    ] {
        let mut email = whole.clone();
        email.attempt_number = whole.attempt_number;
        whole.attempt_number += 1;
        email.recipients = recipients
            .into_iter()
            .map(|at: usize| whole.recipients[at].clone())
            .collect();
        transport.send(&email, &OpenGate::default()).await;
        let asked = server.asked().await;
        keys.push(asked.header("idempotency-key").unwrap().to_owned());
        bodies.push(asked.json());
    }
    assert_eq!(keys[0], id);
    assert_eq!((&keys[1], &bodies[1]), (&keys[0], &bodies[0]));
    assert_eq!(bodies[2]["to"], json!(["a@example.org"]));
    assert_eq!(bodies[3]["to"], json!(["b@example.org"]));
    for key in &keys[2..] {
        assert!(
            key.starts_with(&format!("{id}/")) && key.len() < 256,
            "{key}"
        );
    }
    assert_ne!(keys[2], keys[3]);
}

#[tokio::test]
async fn refusals_carry_the_provider_s_name_of_the_error() {
    let cases = [
        (422, "validation_error", "Invalid `to` field."),
        (
            429,
            "daily_quota_exceeded",
            "You have reached your daily email sending quota.",
        ),
        (
            401,
            "missing_api_key",
            "Missing API key in the authorization header.",
        ),
        (
            409,
            "concurrent_idempotent_requests",
            "Same key while original request is in progress.",
        ),
        (500, "application_error", "An unexpected error occurred."),
    ];
    let answers = cases.map(|(status, name, message)| {
        answer(
            status,
            json!({"statusCode": status, "name": name, "message": message}),
        )
    });
    let server = Server::start(answers).await;
    let transport = transport(resend(&server));
    for (status, name, message) in cases {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        assert_eq!(
            results,
            [refused(Provider::Resend, status, Some(name), message)]
        );
    }
}
