//! Mailgun.

use posthaste_core::answer::Provider;
use posthaste_core::port::{Outgoing, Transport};
use posthaste_transport::{HttpTransport, ProviderConfig};
use serde_json::json;

use crate::fixture::{OpenGate, email_with};
use crate::http::letter::{accepted, base64, refused, simple, to_all, to_bob, transport};
use crate::http::server::{Asked, Server, answer};

fn mailgun(server: &Server) -> HttpTransport {
    transport(ProviderConfig::Mailgun {
        api_key: "secret-key".into(),
        domain: "mg.example.org".to_owned(),
        base_url: Some(server.url()),
    })
}

/// The parts of a form: what stands before each content, and the content.
fn form(asked: &Asked) -> Vec<(String, Vec<u8>)> {
    let kind = asked.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let mut rest = asked.body.as_slice();
    let mark = format!("--{boundary}");
    let mut parts = Vec::new();
    rest = rest.strip_prefix(mark.as_bytes()).unwrap();
    while rest != b"--\r\n" {
        rest = rest.strip_prefix(b"\r\n").unwrap();
        let end = format!("\r\n{mark}");
        let at = rest
            .windows(end.len())
            .position(|bytes| bytes == end.as_bytes())
            .unwrap();
        let part = &rest[..at];
        let blank = part.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let blank = blank.unwrap();
        parts.push((
            String::from_utf8(part[..blank].to_vec()).unwrap(),
            part[blank + 4..].to_vec(),
        ));
        rest = &rest[at + end.len()..];
    }
    parts
}

fn expected(email: &Outgoing, to: &str) -> Vec<(String, Vec<u8>)> {
    let field = |name: &str| format!("Content-Disposition: form-data; name=\"{name}\"");
    vec![
        (field("to"), to.as_bytes().to_vec()),
        (
            field("v:posthaste_id"),
            email.email_id.to_string().into_bytes(),
        ),
        (
            format!(
                "{}; filename=\"message.eml\"\r\nContent-Type: message/rfc822",
                field("message")
            ),
            email.content.to_vec(),
        ),
    ]
}

#[tokio::test]
async fn our_message_goes_as_it_is_and_the_id_is_kept() {
    let taken = json!({
        "id": "<20261107120000.1.ABC@mg.example.org>",
        "message": "Queued. Thank you.",
    });
    let mut server = Server::start([answer(200, taken)]).await;
    let email = to_all();
    let results = mailgun(&server).send(&email, &OpenGate::default()).await;
    let id = Some("20261107120000.1.ABC@mg.example.org");
    assert_eq!(
        results,
        vec![accepted("HTTP 200: Queued. Thank you.", id); 4]
    );
    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/v3/mg.example.org/messages.mime")
    );
    let basic = format!("Basic {}", base64("api:secret-key"));
    assert_eq!(asked.header("authorization"), Some(basic.as_str()));
    let to = "jane@example.org, bob@example.org, cc@example.org, hidden@example.org";
    assert_eq!(form(&asked), expected(&email, to));
    server.expect_no_more();
}

#[tokio::test]
async fn a_message_that_holds_the_form_s_boundary_arrives_whole() {
    let mut server = Server::start([answer(200, json!({"id": "<1@x>"}))]).await;
    let mut email = email_with(&["bob@example.org"], &simple(&["bob@example.org"], &[]));
    let boundary = format!("--posthaste-{}", email.email_id);
    let content = [&email.content[..], boundary.as_bytes(), b"\r\nmore\r\n"].concat();
    email.content = content.into();
    mailgun(&server).send(&email, &OpenGate::default()).await;
    let asked = server.asked().await;
    assert_eq!(form(&asked), expected(&email, "bob@example.org"));
}

#[tokio::test]
async fn refusals_carry_what_was_said() {
    let text = "'to' parameter is not a valid address. please check documentation";
    let server = Server::start([
        answer(400, json!({"message": text})),
        answer(401, "Forbidden"),
        answer(
            403,
            json!({"message": "Domain mg.example.org is not allowed to send: recipient limit exceeded, try again after Sat, 07 Nov 2026 13:00:00 GMT"}),
        ),
    ])
    .await;
    let transport = mailgun(&server);
    for (status, text) in [
        (400, text),
        (401, "Forbidden"),
        (
            403,
            "Domain mg.example.org is not allowed to send: recipient limit exceeded, try again after Sat, 07 Nov 2026 13:00:00 GMT",
        ),
    ] {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        assert_eq!(results, [refused(Provider::Mailgun, status, None, text)]);
    }
}
