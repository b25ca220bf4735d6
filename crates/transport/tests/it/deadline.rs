//! Every stage has a deadline of its own.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::port::Transport;
use posthaste_transport::{SmtpConfig, SmtpTransport, Timeouts, TlsMode};

use crate::fixture::{AlwaysOpen, CONTENT, OpenGate, config, email, email_with, failed};
use crate::scripted::{Peer, Server, full_listener};

const SHORT: Duration = Duration::from_millis(150);

/// What becomes of an email when the server falls silent after `script`, and only this stage's
/// deadline is short.
async fn outcome(
    shorten: fn(&mut Timeouts) -> &mut Duration,
    configure: fn(&mut SmtpConfig),
    content: &[u8],
    script: impl AsyncFnOnce(&mut Peer),
) -> posthaste_core::decision::RecipientResult {
    let server = Server::start().await;
    let mut config = config(server.port());
    *shorten(&mut config.timeouts) = SHORT;
    configure(&mut config);
    let transport = SmtpTransport::new(config).unwrap();
    let email = email_with(&["bob@example.org"], content);
    let gate = OpenGate::default();
    let serve = async {
        let mut peer = server.accept().await;
        script(&mut peer).await;
        peer
    };
    let (mut results, _peer) = tokio::join!(transport.send(&email, &gate), serve);
    results.remove(0)
}

async fn hello(peer: &mut Peer, extensions: &[&str]) {
    peer.say("220 scripted.test\r\n").await;
    peer.hear("EHLO client.test\r\n").await;
    peer.offer(extensions).await;
}

#[tokio::test]
async fn a_connection_that_is_not_answered_times_out() {
    let (listener, _streams) = full_listener().await;
    let mut config = config(listener.local_addr().unwrap().port());
    config.timeouts.connect = SHORT;
    let transport = SmtpTransport::new(config).unwrap();
    let results = transport
        .send(&email(&["bob@example.org"]), &AlwaysOpen)
        .await;
    assert_eq!(results, [failed(Stage::Connect, Cause::Timeout)]);
}

#[tokio::test]
async fn a_silent_banner_times_out() {
    let result = outcome(|t| &mut t.banner, |_| {}, CONTENT, async |_| {}).await;
    assert_eq!(result, failed(Stage::Banner, Cause::Timeout));
}

#[tokio::test]
async fn a_silent_ehlo_times_out() {
    let result = outcome(
        |t| &mut t.hello,
        |_| {},
        CONTENT,
        async |peer| {
            peer.say("220 scripted.test\r\n").await;
        },
    )
    .await;
    assert_eq!(result, failed(Stage::Hello, Cause::Timeout));
}

#[tokio::test]
async fn a_silent_starttls_and_a_silent_handshake_time_out() {
    let required: fn(&mut SmtpConfig) = |config| config.tls = TlsMode::Required;
    let result = outcome(
        |t| &mut t.tls,
        required,
        CONTENT,
        async |peer| {
            hello(peer, &["STARTTLS"]).await;
        },
    )
    .await;
    assert_eq!(result, failed(Stage::Tls, Cause::Timeout));
    let result = outcome(
        |t| &mut t.tls,
        required,
        CONTENT,
        async |peer| {
            hello(peer, &["STARTTLS"]).await;
            peer.hear("STARTTLS\r\n").await;
            peer.say("220 go ahead\r\n").await;
        },
    )
    .await;
    assert_eq!(result, failed(Stage::Tls, Cause::Timeout));
}

#[tokio::test]
async fn a_silent_auth_times_out() {
    let result = outcome(
        |t| &mut t.authentication,
        |config| config.credentials = Some(posthaste_transport::Credentials::new("u", "p")),
        CONTENT,
        async |peer| hello(peer, &["AUTH PLAIN"]).await,
    )
    .await;
    assert_eq!(result, failed(Stage::Authentication, Cause::Timeout));
}

#[tokio::test]
async fn a_silent_mail_rcpt_and_data_time_out_each_on_its_own() {
    for extensions in [&[][..], &["PIPELINING"]] {
        let result = outcome(
            |t| &mut t.mail,
            |_| {},
            CONTENT,
            async |peer| {
                hello(peer, extensions).await;
            },
        )
        .await;
        assert_eq!(result, failed(Stage::MailFrom, Cause::Timeout));
        let result = outcome(
            |t| &mut t.recipient,
            |_| {},
            CONTENT,
            async |peer| {
                hello(peer, extensions).await;
                peer.hear_line().await;
                peer.say("250 ok\r\n").await;
            },
        )
        .await;
        assert_eq!(result, failed(Stage::Recipient, Cause::Timeout));
        let result = outcome(
            |t| &mut t.data,
            |_| {},
            CONTENT,
            async |peer| {
                hello(peer, extensions).await;
                peer.hear_line().await;
                peer.say("250 ok\r\n").await;
                peer.hear_line().await;
                peer.say("250 ok\r\n").await;
            },
        )
        .await;
        assert_eq!(result, failed(Stage::Data, Cause::Timeout));
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_the_message_times_out() {
    let large = vec![b'x'; 64_000_000];
    let result = outcome(
        |t| &mut t.body,
        |_| {},
        &large,
        async |peer| {
            hello(peer, &[]).await;
            peer.hear_line().await;
            peer.say("250 ok\r\n").await;
            peer.hear_line().await;
            peer.say("250 ok\r\n").await;
            peer.hear("DATA\r\n").await;
            peer.say("354 go on\r\n").await;
        },
    )
    .await;
    assert_eq!(result, failed(Stage::Body, Cause::Timeout));
}

#[tokio::test]
async fn a_silent_dot_times_out_after_the_gate() {
    let result = outcome(
        |t| &mut t.dot,
        |_| {},
        CONTENT,
        async |peer| {
            hello(peer, &["PIPELINING"]).await;
            peer.hear_line().await;
            peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        },
    )
    .await;
    assert_eq!(result, failed(Stage::FinalDot, Cause::Timeout));
}

#[tokio::test]
async fn a_reply_that_trickles_in_does_not_extend_the_deadline() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.timeouts.banner = SHORT;
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        let mut peer = server.accept().await;
        let mut pace = tokio::time::interval(SHORT / 4);
        // One byte at a time, for ever, as far as the client is concerned.
        for _ in 0..10_000 {
            pace.tick().await;
            if !peer.try_say_bytes(b"2").await {
                break;
            }
        }
    };
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let (results, ()) = tokio::join!(transport.send(&email, &gate), serve);
    assert_eq!(results, [failed(Stage::Banner, Cause::Timeout)]);
}
