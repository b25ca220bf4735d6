//! What the server takes, and how it says what is wrong. The list of what is refused is run on the
//! real binary (`bad_input` in the scenarios of `cli`).

use axum::body::Body;
use posthaste_server::Limits;
use serde_json::json;

use crate::fixture::{Server, email, local};

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
