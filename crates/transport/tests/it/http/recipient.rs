//! Who is named to whom, and what becomes of each.

use posthaste_core::answer::Provider;
use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_transport::ProviderConfig;
use serde_json::{Value, json};

use crate::fixture::{OpenGate, email_with, failed};
use crate::http::letter::{accepted, hasty, refused, resend, simple, transport};
use crate::http::server::{Say, Server, answer};

const TO: [&str; 2] = ["a@example.org", "b@example.org"];
const CC: [&str; 2] = ["c@example.org", "d@example.org"];

/// The lists of every request that is made for these recipients of a message to TO and CC.
async fn lists(recipients: &[&str], to: &[&str], cc: &[&str]) -> Vec<[Value; 3]> {
    let taken = |_| answer(200, json!({"id": "1"}));
    let mut server = Server::start((0..200).map(taken)).await;
    let email = email_with(recipients, &simple(to, cc));
    let gate = OpenGate::default();
    let results = transport(resend(&server)).send(&email, &gate).await;
    let all = vec![accepted("HTTP 200: accepted", Some("1")); recipients.len()];
    assert_eq!(results, all);
    assert_eq!(gate.passed(), 1);
    let mut lists = Vec::new();
    let mut named = 0;
    while named < recipients.len() {
        let body = server.asked().await.json();
        let list = |field: &str| body.get(field).cloned().unwrap_or(json!([]));
        let three = ["to", "cc", "bcc"].map(list);
        named += three
            .iter()
            .map(|l| l.as_array().unwrap().len())
            .sum::<usize>();
        lists.push(three);
    }
    server.expect_no_more();
    lists
}

#[tokio::test]
async fn only_those_who_wait_are_named_and_nobody_sees_a_hidden_one() {
    let cases: [(&[&str], [Value; 3]); 5] = [
        (
            &["d@example.org", "x@example.org", "a@example.org"],
            [
                json!(["a@example.org"]),
                json!(["d@example.org"]),
                json!(["x@example.org"]),
            ],
        ),
        (
            &["b@example.org"],
            [json!(["b@example.org"]), json!([]), json!([])],
        ),
        // Nobody of To waits: the first of Cc takes the place.
        (
            &["c@example.org", "d@example.org", "x@example.org"],
            [
                json!(["c@example.org"]),
                json!(["d@example.org"]),
                json!(["x@example.org"]),
            ],
        ),
        (
            &["x@example.org"],
            [json!(["x@example.org"]), json!([]), json!([])],
        ),
        // The case of letters makes no other recipient.
        (
            &["A@Example.org"],
            [json!(["A@example.org"]), json!([]), json!([])],
        ),
    ];
    for (recipients, expected) in cases {
        assert_eq!(lists(recipients, &TO, &CC).await, [expected]);
    }
}

#[tokio::test]
async fn several_hidden_ones_alone_get_a_request_each() {
    for (to, cc) in [(&TO[..], &CC[..]), (&[], &[])] {
        let lists = lists(&["x@example.org", "y@example.org"], to, cc).await;
        let alone = |address: &str| [json!([address]), json!([]), json!([])];
        assert_eq!(lists, [alone("x@example.org"), alone("y@example.org")]);
    }
}

#[tokio::test]
async fn more_recipients_than_a_request_may_have_go_in_several() {
    let visible: Vec<String> = (0..60).map(|n| format!("v{n}@example.org")).collect();
    let hidden: Vec<String> = (0..42).map(|n| format!("h{n}@example.org")).collect();
    let visible: Vec<&str> = visible.iter().map(String::as_str).collect();
    let recipients: Vec<&str> = visible
        .iter()
        .copied()
        .chain(hidden.iter().map(String::as_str))
        .collect();
    let (to, cc) = visible.split_at(10);
    let lists = lists(&recipients, to, cc).await;
    let lengths: Vec<[usize; 3]> = lists
        .iter()
        .map(|three| three.clone().map(|list| list.as_array().unwrap().len()))
        .collect();
    assert_eq!(lengths, [[10, 40, 0], [1, 9, 40], [1, 0, 0], [1, 0, 0]]);
}

#[tokio::test]
async fn an_address_that_is_there_twice_is_named_once() {
    let mut server = Server::start([answer(200, json!({"id": "1"}))]).await;
    let recipients = ["a@example.org", "A@example.org"];
    let email = email_with(&recipients, &simple(&recipients, &[]));
    let results = transport(resend(&server))
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(results, vec![accepted("HTTP 200: accepted", Some("1")); 2]);
    let asked = server.asked().await;
    assert_eq!(asked.json()["to"], json!(["a@example.org"]));
    assert_eq!(
        asked.header("idempotency-key"),
        Some(email.email_id.to_string().as_str())
    );
}

#[tokio::test]
async fn one_refused_request_speaks_only_about_its_own_recipients() {
    let invalid = json!({"name": "validation_error", "message": "Invalid `to` field."});
    let server = Server::start([answer(422, invalid), answer(200, json!({"id": "2"}))]).await;
    let email = email_with(&["x@example.org", "y@example.org"], &simple(&[], &[]));
    let results = transport(resend(&server))
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(
        results,
        [
            refused(
                Provider::Resend,
                422,
                Some("validation_error"),
                "Invalid `to` field."
            ),
            accepted("HTTP 200: accepted", Some("2")),
        ]
    );
}

#[tokio::test]
async fn a_provider_in_trouble_is_not_asked_for_the_others() {
    let limit = || {
        answer(
            429,
            json!({"name": "rate_limit_exceeded", "message": "Slow down."}),
        )
    };
    let mut server = Server::start([answer(200, json!({"id": "1"})), limit()]).await;
    let hidden = ["x@example.org", "y@example.org", "z@example.org"];
    let email = email_with(&hidden, &simple(&[], &[]));
    let results = transport(resend(&server))
        .send(&email, &OpenGate::default())
        .await;
    let slow = || {
        refused(
            Provider::Resend,
            429,
            Some("rate_limit_exceeded"),
            "Slow down.",
        )
    };
    assert_eq!(
        results,
        [accepted("HTTP 200: accepted", Some("1")), slow(), slow()]
    );
    server.asked().await;
    server.asked().await;
    server.expect_no_more();
}

#[tokio::test]
async fn a_lost_answer_is_uncertain_only_for_its_own_recipients() {
    let mut server = Server::start([Say::Nothing]).await;
    let transport = hasty(ProviderConfig::SendGrid {
        api_key: "SG.secret-key".into(),
        base_url: Some(server.url()),
    });
    let email = email_with(&["x@example.org", "y@example.org"], &simple(&[], &[]));
    let results = transport.send(&email, &OpenGate::default()).await;
    let expected: [RecipientResult; 2] = [
        failed(Stage::Request, Cause::Timeout),
        failed(Stage::Body, Cause::Timeout),
    ];
    assert_eq!(results, expected);
    server.asked().await;
    server.expect_no_more();
}

#[tokio::test]
async fn a_recipient_who_is_named_in_a_refusal_does_not_cost_the_others_their_copy() {
    let addresses = ["a@example.org", "bad@example.org", "c@example.org"];
    let text = "Error parsing 'To': Illegal email domain in address 'bad@example.org'.";
    let mut server = Server::start([
        answer(422, json!({"ErrorCode": 300, "Message": text})),
        answer(
            200,
            json!({"MessageID": "m", "ErrorCode": 0, "Message": "OK"}),
        ),
    ])
    .await;
    let postmark = transport(ProviderConfig::Postmark {
        server_token: "secret-token".into(),
        message_stream: None,
        base_url: Some(server.url()),
    });
    let email = email_with(&addresses, &simple(&addresses, &[]));
    let gate = OpenGate::default();
    let results = postmark.send(&email, &gate).await;
    let taken = accepted("HTTP 200: OK", Some("m"));
    let no = refused(Provider::Postmark, 422, Some("300"), text);
    assert_eq!(results, [taken.clone(), no, taken]);
    assert_eq!(gate.passed(), 1);
    server.asked().await;
    assert_eq!(
        server.asked().await.json()["To"],
        "a@example.org, c@example.org"
    );
    server.expect_no_more();
}

#[tokio::test]
async fn sendgrid_names_recipients_by_their_places() {
    let error = |field: &str| {
        let message = "Does not contain a valid address.";
        json!({"errors": [{"field": field, "message": message}]})
    };
    let mut server = Server::start([
        answer(400, error("personalizations.0.bcc.0.email")),
        answer(400, error("personalizations.0.to.1.email")),
        answer(202, ""),
    ])
    .await;
    let sendgrid = transport(ProviderConfig::SendGrid {
        api_key: "SG.secret-key".into(),
        base_url: Some(server.url()),
    });
    let to = ["a@example.org", "bad@example.org"];
    let all = ["a@example.org", "bad@example.org", "worse@example.org"];
    let email = email_with(&all, &simple(&to, &[]));
    let results = sendgrid.send(&email, &OpenGate::default()).await;
    let no = |field: &str| {
        let text = format!("{field}: Does not contain a valid address.");
        refused(Provider::SendGrid, 400, None, &text)
    };
    assert_eq!(
        results,
        [
            accepted("HTTP 202: accepted", None),
            no("personalizations.0.to.1.email"),
            no("personalizations.0.bcc.0.email"),
        ]
    );
    for _ in 0..2 {
        server.asked().await;
    }
    let last = server.asked().await.json();
    assert_eq!(
        last["personalizations"],
        json!([{"to": [{"email": "a@example.org"}]}])
    );
}

#[tokio::test]
async fn a_refusal_of_everybody_who_is_named_is_final() {
    let text = "no: a@example.org, b@example.org";
    let mut server = Server::start([answer(422, text)]).await;
    let email = email_with(&TO, &simple(&TO, &[]));
    let results = transport(resend(&server))
        .send(&email, &OpenGate::default())
        .await;
    assert_eq!(results, vec![refused(Provider::Resend, 422, None, text); 2]);
    server.asked().await;
    server.expect_no_more();
}
