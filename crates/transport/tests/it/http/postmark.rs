//! Postmark.

use posthaste_core::answer::Provider;
use posthaste_core::port::Transport;
use posthaste_transport::{HttpTransport, ProviderConfig};
use serde_json::json;

use crate::fixture::{OpenGate, email_with};
use crate::http::letter::{
    HTML, ICS, LATIN, PICTURE, TEXT, accepted, base64, octets, refused, simple, to_all, to_bob,
    transport,
};
use crate::http::server::{Server, answer};

fn postmark(server: &Server, stream: Option<&str>) -> HttpTransport {
    transport(ProviderConfig::Postmark {
        server_token: "secret-token".into(),
        message_stream: stream.map(str::to_owned),
        base_url: Some(server.url()),
    })
}

#[tokio::test]
async fn the_documented_request_is_made_and_the_id_kept() {
    let taken = json!({
        "To": "jane@example.org",
        "SubmittedAt": "2026-11-07T12:00:00Z",
        "MessageID": "0a129aee-e1cd-480d-b08d-4f48548ff48d",
        "ErrorCode": 0,
        "Message": "OK",
    });
    let mut server = Server::start([answer(200, taken)]).await;
    let email = to_all();
    let transport = postmark(&server, Some("invitations"));
    let results = transport.send(&email, &OpenGate::default()).await;
    let id = Some("0a129aee-e1cd-480d-b08d-4f48548ff48d");
    assert_eq!(results, vec![accepted("HTTP 200: OK", id); 4]);

    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/email")
    );
    assert_eq!(
        asked.header("x-postmark-server-token"),
        Some("secret-token")
    );
    assert_eq!(asked.header("accept"), Some("application/json"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let file = |name: &str, kind: &str, content: &[u8]| json!({"Name": name, "ContentType": kind, "Content": base64(content)});
    assert_eq!(
        asked.json(),
        json!({
            "From": "=?utf-8?B?Wm/DqywgZnJvbSB0aGUgc2hvcA==?= <zoe@example.org>",
            "To": "\"Doe, Jane\" <jane@example.org>, Bob <bob@example.org>",
            "Cc": "=?utf-8?B?w4dhxJ9yxLE=?= <cc@example.org>",
            "Bcc": "hidden@example.org",
            "ReplyTo": "Desk <desk@example.org>",
            "Subject": "Grüße ✓",
            "TextBody": TEXT,
            "HtmlBody": HTML,
            "MessageStream": "invitations",
            "Headers": [
                {"Name": "Message-ID", "Value": "<id-1@example.org>"},
                {"Name": "X-PM-KeepID", "Value": "true"},
                {"Name": "X-Trip", "Value": "Zürich"},
                {"Name": "List-Unsubscribe", "Value": "<https://example.org/u?a=1>"},
            ],
            "Metadata": {"posthaste_id": email.email_id.to_string()},
            "Attachments": [
                {
                    "Name": "image-1.png",
                    "ContentType": "image/png",
                    "Content": base64(PICTURE),
                    "ContentID": "cid:logo@example.org",
                },
                file("Übersicht.pdf", "application/pdf", &octets()),
                file("list.csv", "text/csv; charset=iso-8859-1", LATIN),
                file(
                    "invite.ics",
                    "text/calendar; charset=utf-8; method=REQUEST",
                    ICS.as_bytes(),
                ),
            ],
        })
    );
    server.expect_no_more();
}

#[tokio::test]
async fn refusals_carry_the_number_of_the_error() {
    let cases = [
        (
            422,
            406,
            "You tried to send to recipient(s) that have been marked as inactive.",
        ),
        (422, 405, "Not allowed to send. You ran out of credits."),
        (401, 10, "No Account or Server API tokens were supplied."),
        (422, 300, "Error parsing 'To': Illegal email address 'x'."),
    ];
    let answers = cases
        .map(|(status, code, text)| answer(status, json!({"ErrorCode": code, "Message": text})));
    let server = Server::start(answers).await;
    let transport = postmark(&server, None);
    for (status, code, text) in cases {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        let name = code.to_string();
        assert_eq!(
            results,
            [refused(Provider::Postmark, status, Some(&name), text)]
        );
    }
}

#[tokio::test]
async fn recipients_that_postmark_leaves_out_of_a_good_answer_are_refused() {
    let text = "Message OK, but will not deliver to these inactive addresses: gone@example.org. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.";
    let taken = json!({"MessageID": "m-1", "ErrorCode": 0, "Message": text});
    let server = Server::start([answer(200, taken)]).await;
    let addresses = ["bob@example.org", "Gone@example.org"];
    let email = email_with(&addresses, &simple(&addresses, &[]));
    let results = postmark(&server, None)
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(
        results,
        [
            accepted(&format!("HTTP 200: {text}"), Some("m-1")),
            refused(Provider::Postmark, 422, Some("406"), text),
        ]
    );
}

#[tokio::test]
async fn a_number_in_a_good_answer_is_a_refusal() {
    let odd = json!({"ErrorCode": 412, "Message": "Your account is pending approval."});
    let server = Server::start([answer(200, odd)]).await;
    let results = postmark(&server, None)
        .send(&to_bob(), &OpenGate::default())
        .await;
    let text = "Your account is pending approval.";
    assert_eq!(
        results,
        [refused(Provider::Postmark, 422, Some("412"), text)]
    );
}
