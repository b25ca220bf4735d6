//! What is certain and what is not, when there is no good answer.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_transport::{HttpConfig, HttpTransport, ProviderConfig};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fixture::{HeldGate, OpenGate, ShutGate, email_with, failed, tls_failed_at};
use crate::http::letter::{
    accepted, answer_in, base64, hasty, octets, resend, to_all, to_bob, transport,
};
use crate::http::server::{Say, Server, answer};
use crate::scripted::in_time;

fn postmark(url: String) -> ProviderConfig {
    ProviderConfig::Postmark {
        server_token: "secret-token".into(),
        message_stream: None,
        base_url: Some(url),
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_leaves_the_fate_unknown() {
    let mut server = Server::start([Say::HangUp, Say::Nothing]).await;
    let patient = transport(postmark(server.url()));
    let results = patient.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(results, [failed(Stage::Request, Cause::Disconnected)]);
    let hasty = hasty(postmark(server.url()));
    let results = hasty.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(results, [failed(Stage::Request, Cause::Timeout)]);
    server.asked().await;
    server.asked().await;
    server.expect_no_more();
}

#[tokio::test]
async fn a_lost_answer_can_be_asked_for_again_where_our_key_is_known() {
    let mut server = Server::start([
        Say::HangUp,
        Say::Nothing,
        answer(200, json!({"id": "once"})),
    ])
    .await;
    let patient = transport(resend(&server));
    let hasty = hasty(resend(&server));
    let email = to_bob();
    for (transport, cause) in [(&patient, Cause::Disconnected), (&hasty, Cause::Timeout)] {
        let results = transport.send(&email, &OpenGate::default()).await;
        let lost = Cause::AnswerLost(cause.to_string());
        assert_eq!(results, [failed(Stage::Request, lost)]);
    }
    let results = patient.send(&email, &OpenGate::default()).await;
    assert_eq!(results, [accepted("HTTP 200: accepted", Some("once"))]);
    let mut keys = Vec::new();
    for _ in 0..3 {
        let asked = server.asked().await;
        keys.push(asked.header("idempotency-key").unwrap().to_owned());
    }
    assert_eq!(keys, vec![email.email_id.to_string(); 3]);
}

#[tokio::test]
async fn what_failed_before_the_request_was_written_was_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for url in ["http", "https"].map(|scheme| format!("{scheme}://127.0.0.1:{port}")) {
        for provider in [
            postmark(url.clone()),
            ProviderConfig::Resend {
                api_key: "re_secret-key".into(),
                base_url: Some(url),
            },
        ] {
            let results = transport(provider)
                .send(&to_bob(), &OpenGate::default())
                .await;
            assert_eq!(results, [failed(Stage::Connect, Cause::Refused)]);
        }
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_looked_up_was_sent_nothing() {
    let transport = transport(postmark("https://nowhere.invalid".to_owned()));
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    let RecipientResult::Failed(failure) = &results[0] else {
        panic!("{results:?}");
    };
    assert_eq!(failure.stage, Stage::Resolve, "{failure:?}");
    assert!(matches!(failure.cause, Cause::LookupFailed(_)));
}

#[tokio::test]
async fn a_server_without_tls_was_sent_nothing() {
    let mut server = Server::start([]).await;
    let url = server.url().replace("http:", "https:");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let speak = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 no\r\n\r\n")
            .await
            .unwrap();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut Vec::new()).await;
    });
    let plain = transport(postmark(format!("https://127.0.0.1:{port}")));
    let results = in_time(plain.send(&to_bob(), &OpenGate::default())).await;
    assert_eq!(tls_failed_at(&results[0]), Some(Stage::Tls), "{results:?}");
    speak.abort();
    // One that says nothing at all to a greeting it does not understand.
    let mut config = HttpConfig::new("api", postmark(url));
    config.connect_timeout = Duration::from_millis(300);
    let silent = HttpTransport::new(config).unwrap();
    let results = silent.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(results, [failed(Stage::Connect, Cause::Timeout)]);
    server.expect_no_more();
}

#[tokio::test]
async fn a_shut_gate_sends_nothing_to_anyone() {
    let mut server = Server::start([answer(200, json!({"id": "1"}))]).await;
    let transport = transport(resend(&server));
    let results = transport.send(&to_all(), &ShutGate).await;
    assert_eq!(results, vec![failed(Stage::Gate, Cause::LeaseLost); 4]);
    // The next one is the first that the server hears of.
    let email = to_bob();
    transport.send(&email, &OpenGate::default()).await;
    let asked = server.asked().await;
    assert_eq!(
        asked.header("idempotency-key"),
        Some(email.email_id.to_string().as_str())
    );
    server.expect_no_more();
}

#[tokio::test]
async fn nothing_is_sent_before_the_gate_was_passed() {
    let mut server = Server::start([answer(200, json!({"id": "1"}))]).await;
    let transport = transport(resend(&server));
    let email = to_bob();
    let (gate, reached, pass) = HeldGate::new();
    let watch = async {
        in_time(reached).await.unwrap();
        server.expect_no_more();
        pass.send(true).unwrap();
        server.asked().await
    };
    let (results, _) = tokio::join!(transport.send(&email, &gate), watch);
    assert_eq!(results, [accepted("HTTP 200: accepted", Some("1"))]);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_does_not_reach_the_gate() {
    let mut server = Server::start([]).await;
    let transport = transport(resend(&server));
    let gate = OpenGate::default();
    let results = transport
        .send(&email_with(&["bob@example.org"], b""), &gate)
        .await;
    let cause = Cause::NotSupported("a message that cannot be read".to_owned());
    assert_eq!(results, [failed(Stage::Body, cause)]);
    assert_eq!(gate.passed(), 0);
    server.expect_no_more();
}

#[tokio::test]
async fn a_yes_is_a_yes_whatever_its_body() {
    let long = "x".repeat(1_000_000);
    let server = Server::start([
        answer(200, ""),
        answer(201, "<html>"),
        answer(202, json!({"other": 1})),
        answer(200, json!({"id": long})),
        Say::Cut(200, "{\"id\":".to_owned()),
    ])
    .await;
    let transport = transport(resend(&server));
    for status in [200, 201, 202, 200, 200] {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        assert_eq!(
            results,
            [accepted(&format!("HTTP {status}: accepted"), None)]
        );
    }
}

#[tokio::test]
async fn half_a_refusal_is_certain_but_not_for_good() {
    let server = Server::start([
        Say::Cut(403, "{\"name\":\"daily_".to_owned()),
        Say::Cut(500, "{".to_owned()),
    ])
    .await;
    let transport = transport(resend(&server));
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(results, [failed(Stage::Body, Cause::Disconnected)]);
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(answer_in(&results[0]).status, 500);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = vec![("location", "/elsewhere".to_owned())];
    let mut server = Server::start([Say::Answer(307, elsewhere, String::new())]).await;
    let results = transport(resend(&server))
        .send(&to_bob(), &OpenGate::default())
        .await;
    assert_eq!(answer_in(&results[0]).status, 307);
    server.asked().await;
    server.expect_no_more();
}

#[tokio::test]
async fn the_time_a_provider_asks_for_is_kept() {
    let asks = |status, name, value: &str| {
        Say::Answer(status, vec![(name, value.to_owned())], String::new())
    };
    let server = Server::start([
        asks(429, "Retry-After", "120"),
        asks(503, "Retry-After", "Fri, 07 Nov 2014 08:00:00 GMT"),
        asks(429, "ratelimit-reset", "3"),
        asks(400, "ratelimit-reset", "3"),
        answer(429, ""),
    ])
    .await;
    let transport = transport(resend(&server));
    for seconds in [Some(120), Some(0), Some(3), None, None] {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        let answer = answer_in(&results[0]);
        assert_eq!(answer.retry_after, seconds.map(Duration::from_secs));
    }
}

#[tokio::test]
async fn a_large_message_arrives_whole_and_may_be_too_large() {
    let too_large = json!({"name": "validation_error", "message": "Payload too large."});
    let mut server = Server::start([answer(200, json!({"id": "1"})), answer(413, too_large)]).await;
    let transport = transport(resend(&server));
    let large = octets().repeat(20 * 1024);
    let content = mail_builder::MessageBuilder::new()
        .from("ann@example.org")
        .to("bob@example.org")
        .subject("large")
        .text_body("Look inside.")
        .attachment("application/octet-stream", "large.bin", large.as_slice())
        .write_to_vec()
        .unwrap();
    let email = email_with(&["bob@example.org"], &content);
    let results = transport.send(&email, &OpenGate::default()).await;
    assert_eq!(results, [accepted("HTTP 200: accepted", Some("1"))]);
    let body = server.asked().await.json();
    assert!(body["attachments"][0]["content"] == base64(&large));
    let results = transport.send(&email, &OpenGate::default()).await;
    assert_eq!(answer_in(&results[0]).status, 413);
}

#[tokio::test]
async fn secrets_that_a_provider_repeats_are_not_passed_on() {
    let echo = json!({"name": "invalid_api_key", "message": "re_secret-key is no key"});
    let server = Server::start([answer(403, echo)]).await;
    let transport = transport(resend(&server));
    let results = transport.send(&to_bob(), &OpenGate::default()).await;
    assert_eq!(answer_in(&results[0]).text, "… is no key");
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let mut server = Server::start([Say::Nothing, Say::Nothing]).await;
    let mut config = HttpConfig::new("api", postmark(server.url()));
    config.connections = 1;
    let transport = HttpTransport::new(config).unwrap();
    let (email, open) = (to_bob(), OpenGate::default());
    let (gate, mut reached, _never) = HeldGate::new();
    let mut first = std::pin::pin!(transport.send(&email, &open));
    tokio::select! {
        _ = &mut first => panic!("it waits for its answer"),
        _ = server.asked() => {}
    }
    tokio::select! {
        biased;
        _ = first => panic!("it waits for its answer"),
        _ = transport.send(&email, &gate) => panic!("it waits for its turn"),
        () = async { for _ in 0..100 { tokio::task::yield_now().await } } => {}
    }
    assert!(
        reached.try_recv().is_err(),
        "the second one came to the gate"
    );
}
