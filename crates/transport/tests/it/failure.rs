//! Every failure says at which stage it happened, and why.

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_transport::{SmtpConfig, SmtpTransport, TlsMode};

use crate::fixture::{
    AlwaysOpen, CONTENT, OpenGate, accepted, config, email, email_with, failed, protocol_broken_at,
    refused, transport,
};
use crate::scripted::{Peer, Server, closed_port};

/// How far the server plays along before it does something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Until {
    Banner,
    Hello,
    Mail,
    Recipient,
    Data,
    Dot,
}

const ALL: [(Until, Stage); 6] = [
    (Until::Banner, Stage::Banner),
    (Until::Hello, Stage::Hello),
    (Until::Mail, Stage::MailFrom),
    (Until::Recipient, Stage::Recipient),
    (Until::Data, Stage::Data),
    (Until::Dot, Stage::FinalDot),
];

/// Plays along until the reply that is wanted, command by command.
async fn play(peer: &mut Peer, until: Until) {
    if until == Until::Banner {
        return;
    }
    peer.say("220 scripted.test\r\n").await;
    peer.hear("EHLO client.test\r\n").await;
    if until == Until::Hello {
        return;
    }
    peer.say("250 scripted.test\r\n").await;
    peer.hear("MAIL FROM:<ann@example.org>\r\n").await;
    if until == Until::Mail {
        return;
    }
    peer.say("250 ok\r\n").await;
    peer.hear("RCPT TO:<bob@example.org>\r\n").await;
    if until == Until::Recipient {
        return;
    }
    peer.say("250 ok\r\n").await;
    peer.hear("DATA\r\n").await;
    if until == Until::Data {
        return;
    }
    peer.say("354 go on\r\n").await;
    peer.hear_bytes(CONTENT).await;
    peer.hear(".\r\n").await;
}

/// What becomes of an email when the server says `bytes` instead of the reply, and hangs up.
async fn outcome(until: Until, bytes: &[u8]) -> RecipientResult {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let serve = async {
        let mut peer = server.accept().await;
        play(&mut peer, until).await;
        peer.say_bytes(bytes).await;
    };
    let (mut results, ()) = tokio::join!(transport.send(&email, &gate), serve);
    assert_eq!(results.len(), 1);
    assert_eq!(gate.passed(), u32::from(until == Until::Dot));
    results.remove(0)
}

#[tokio::test]
async fn a_refusal_is_reported_with_its_stage() {
    for (until, stage) in ALL {
        // After a 5xx to EHLO, HELO is tried; so that stage is asked with 4xx only.
        let replies = ["450 4.2.1 later", "554 5.7.1 never", "421 4.3.2 closing"];
        for reply in replies {
            if until == Until::Hello && reply.starts_with('5') {
                continue;
            }
            assert_eq!(
                outcome(until, format!("{reply}\r\n").as_bytes()).await,
                refused(stage, reply),
            );
        }
    }
}

#[tokio::test]
async fn a_hang_up_is_reported_with_its_stage() {
    for (until, stage) in ALL {
        assert_eq!(
            outcome(until, b"").await,
            failed(stage, Cause::Disconnected),
        );
        // In the middle of a line, and of a reply.
        assert_eq!(
            outcome(until, b"250 o").await,
            failed(stage, Cause::Disconnected),
        );
        assert_eq!(
            outcome(until, b"250-o\r\n").await,
            failed(stage, Cause::Disconnected),
        );
    }
}

#[tokio::test]
async fn garbage_is_reported_with_its_stage() {
    for (until, stage) in ALL {
        for garbage in ["HTTP/1.1 400 Bad Request\r\n", "250-a\r\n550 b\r\n", "\r\n"] {
            let result = outcome(until, garbage.as_bytes()).await;
            assert_eq!(
                protocol_broken_at(&result),
                Some(stage),
                "{garbage:?} {result:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_in_order_elsewhere_is_out_of_order_here() {
    for (until, stage) in ALL {
        let reply = match until {
            Until::Data => "250 ok\r\n",
            _ => "354 go on\r\n",
        };
        let result = outcome(until, reply.as_bytes()).await;
        assert_eq!(protocol_broken_at(&result), Some(stage), "{result:?}");
    }
}

#[tokio::test]
async fn a_reply_line_of_ten_megabytes_is_bounded() {
    for (until, stage) in ALL {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email(&["bob@example.org"]);
        let serve = async {
            let mut peer = server.accept().await;
            play(&mut peer, until).await;
            let line = vec![b'2'; 10_000_000];
            // The client does not listen to the end.
            peer.try_say_bytes(&line).await;
        };
        let (results, ()) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
        assert_eq!(protocol_broken_at(&results[0]), Some(stage));
    }
}

#[tokio::test]
async fn nobody_listening_is_a_refused_connection() {
    let transport = transport(closed_port().await);
    let email = email(&["a@example.org", "b@example.org"]);
    let results = transport.send(&email, &AlwaysOpen).await;
    assert_eq!(results, vec![failed(Stage::Connect, Cause::Refused); 2]);
}

#[tokio::test]
async fn a_host_that_cannot_be_found_is_a_failed_lookup() {
    let mut config = SmtpConfig::new("no-such-host.invalid", 25);
    config.tls = TlsMode::None;
    let transport = SmtpTransport::new(config).unwrap();
    let email = email(&["bob@example.org"]);
    let results = transport.send(&email, &AlwaysOpen).await;
    match &results[..] {
        [RecipientResult::Failed(failure)] => {
            assert_eq!(failure.stage, Stage::Resolve);
            assert!(
                matches!(failure.cause, Cause::LookupFailed(_) | Cause::Timeout),
                "{failure:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_address_of_a_host_is_tried() {
    // `localhost` has an IPv6 address too on most machines, where nobody listens.
    let server = Server::start().await;
    let mut config = config(server.port());
    config.host = "localhost".to_owned();
    let transport = SmtpTransport::new(config).unwrap();
    let email = email(&["bob@example.org"]);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message("Subject: hello\r\n\r\nHello.\r\n").await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    assert_eq!(results, [accepted("250 2.0.0 taken")]);
}

/// What becomes of a large email when the server says that it is too large while it comes, and
/// then does `and_then`.
async fn outcome_of_early_refusal(and_then: impl AsyncFnOnce(Peer)) -> RecipientResult {
    let server = Server::start().await;
    let transport = transport(server.port());
    let large = email_with(&["bob@example.org"], &[b'x'; 30_000_000]);
    let gate = OpenGate::default();
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.hear_line().await;
        peer.hear("RCPT TO:<bob@example.org>\r\nDATA\r\n").await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        peer.hear("xxxx").await;
        peer.say("552 5.3.4 too much\r\n").await;
        and_then(peer).await;
    };
    let (mut results, ()) = tokio::join!(transport.send(&large, &gate), serve);
    assert_eq!(gate.passed(), 0);
    results.remove(0)
}

#[tokio::test]
async fn a_refusal_in_the_middle_of_the_message_is_believed() {
    let refusal = refused(Stage::Body, "552 5.3.4 too much");
    // It hangs up without reading the rest.
    assert_eq!(
        outcome_of_early_refusal(async |peer| drop(peer)).await,
        refusal
    );
    // It reads the rest, and waits for the dot.
    let patient = outcome_of_early_refusal(async |mut peer: Peer| {
        peer.hear_end().await.0.unwrap_err();
    });
    assert_eq!(patient.await, refusal);
}

#[tokio::test]
async fn an_email_without_recipients_needs_no_server() {
    let transport = transport(closed_port().await);
    let results = transport.send(&email(&[]), &AlwaysOpen).await;
    assert_eq!(results, []);
}
