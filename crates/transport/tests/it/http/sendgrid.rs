//! SendGrid.

use posthaste_core::answer::Provider;
use posthaste_core::port::Transport;
use posthaste_transport::{HttpTransport, ProviderConfig};
use serde_json::json;

use crate::fixture::OpenGate;
use crate::http::letter::{
    HTML, ICS, LATIN, PICTURE, TEXT, accepted, base64, octets, refused, to_all, to_bob, transport,
};
use crate::http::server::{Say, Server, answer};

fn sendgrid(server: &Server) -> HttpTransport {
    transport(ProviderConfig::SendGrid {
        api_key: "SG.secret-key".into(),
        base_url: Some(server.url()),
    })
}

#[tokio::test]
async fn the_documented_request_is_made_and_the_id_kept() {
    let id = vec![("X-Message-Id", "14c5d75ce93".to_owned())];
    let mut server = Server::start([Say::Answer(202, id, String::new())]).await;
    let email = to_all();
    let results = sendgrid(&server).send(&email, &OpenGate::default()).await;
    assert_eq!(
        results,
        vec![accepted("HTTP 202: accepted", Some("14c5d75ce93")); 4]
    );

    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/v3/mail/send")
    );
    assert_eq!(asked.header("authorization"), Some("Bearer SG.secret-key"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let file = |name: &str, kind: &str, content: &[u8]| {
        json!({
            "filename": name,
            "type": kind,
            "content": base64(content),
            "disposition": "attachment",
        })
    };
    assert_eq!(
        asked.json(),
        json!({
            "personalizations": [{
                "to": [
                    {"email": "jane@example.org", "name": "\"Doe, Jane\""},
                    {"email": "bob@example.org", "name": "Bob"},
                ],
                "cc": [{"email": "cc@example.org", "name": "Çağrı"}],
                "bcc": [{"email": "hidden@example.org"}],
            }],
            "from": {"email": "zoe@example.org", "name": "Zoë, from the shop"},
            "reply_to_list": [{"email": "desk@example.org", "name": "Desk"}],
            "subject": "Grüße ✓",
            "content": [
                {"type": "text/plain", "value": TEXT},
                {"type": "text/html", "value": HTML},
                {"type": "text/calendar; method=REQUEST", "value": ICS},
            ],
            "headers": {
                "Message-ID": "<id-1@example.org>",
                "X-Trip": "Zürich",
                "List-Unsubscribe": "<https://example.org/u?a=1>",
            },
            "custom_args": {"posthaste_id": email.email_id.to_string()},
            "attachments": [
                {
                    "filename": "image-1.png",
                    "type": "image/png",
                    "content": base64(PICTURE),
                    "disposition": "inline",
                    "content_id": "logo@example.org",
                },
                file("Übersicht.pdf", "application/pdf", &octets()),
                file("list.csv", "text/csv", LATIN),
                file("invite.ics", "application/ics", ICS.as_bytes()),
            ],
        })
    );
    server.expect_no_more();
}

#[tokio::test]
async fn refusals_carry_what_was_said_about_each_field() {
    let error = |field: Option<&str>, message: &str| json!({"field": field, "message": message, "help": null});
    let server = Server::start([
        answer(
            400,
            json!({"errors": [
                error(Some("personalizations.0.to.0.email"), "Does not contain a valid address."),
                error(Some("subject"), "The subject is required."),
            ]}),
        ),
        answer(401, json!({"errors": [error(None, "Maximum credits exceeded")]})),
        answer(
            403,
            json!({"errors": [error(Some("from"), "The from address does not match a verified Sender Identity.")]}),
        ),
        answer(503, "<html>busy</html>"),
    ])
    .await;
    let transport = sendgrid(&server);
    for (status, text) in [
        (
            400,
            "personalizations.0.to.0.email: Does not contain a valid address.; subject: The subject is required.",
        ),
        (401, "Maximum credits exceeded"),
        (
            403,
            "from: The from address does not match a verified Sender Identity.",
        ),
        (503, "<html>busy</html>"),
    ] {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        assert_eq!(results, [refused(Provider::SendGrid, status, None, text)]);
    }
}
