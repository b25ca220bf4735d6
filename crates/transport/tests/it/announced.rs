//! Who waits for a connection is announced together with the final dot of the message before.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Gate, Transport};
use posthaste_sink::{Sink, SinkConfig};
use posthaste_transport::{SmtpConfig, SmtpTransport, TlsMode};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::fixture::{
    AlwaysOpen, CONTENT, HeldGate, OpenGate, accepted, config, email, email_with, failed, refused,
};
use crate::scripted::{Peer, Server, in_time};
use crate::tls::{Authority, trusting};

const MESSAGE: &str = "Subject: hello\r\n\r\nHello.\r\n";
const TAKEN: &str = "250 2.0.0 taken";

fn announcement(recipients: &[&str]) -> String {
    let recipients = recipients.iter();
    let recipients: String = recipients
        .map(|recipient| format!("RCPT TO:<{recipient}>\r\n"))
        .collect();
    format!("MAIL FROM:<ann@example.org>\r\n{recipients}DATA\r\n")
}

fn single(port: u16) -> SmtpConfig {
    let mut config = config(port);
    config.connections = 1;
    config
}

async fn send(transport: &SmtpTransport, recipients: &[&str], gate: &dyn Gate) -> RecipientResult {
    transport.send(&email(recipients), gate).await.remove(0)
}

/// A server with one connection that was used, and a transport that knows it.
async fn used(config: impl FnOnce(u16) -> SmtpConfig) -> (Server, SmtpTransport, Peer) {
    let server = Server::start().await;
    let transport = SmtpTransport::new(config(server.port())).unwrap();
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let first = send(&transport, &["first@example.org"], &AlwaysOpen);
    let (first, peer) = tokio::join!(first, serve);
    assert_eq!(first, accepted(TAKEN));
    (server, transport, peer)
}

/// Takes a message to `a@example.org` up to its gate, lets it pass, and hears the message, its dot
/// and what was announced behind it, all at once.
async fn take_a(
    peer: &mut Peer,
    reached: oneshot::Receiver<()>,
    pass: oneshot::Sender<bool>,
    announced: &str,
) {
    peer.hear_at_once(&announcement(&["a@example.org"])).await;
    peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
    in_time(reached).await.unwrap();
    peer.hear_nothing().await;
    pass.send(true).unwrap();
    peer.hear_at_once(&format!("{MESSAGE}.\r\n{announced}"))
        .await;
}

#[tokio::test]
async fn a_small_message_its_dot_and_the_next_announcement_are_one_write() {
    let (_server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let (next_gate, next_reached, next_pass) = HeldGate::new();
    let serve = async {
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        peer.say("250 2.0.0 a\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        // The gate is before the dot here, too.
        in_time(next_reached).await.unwrap();
        peer.hear_nothing().await;
        next_pass.send(true).unwrap();
        peer.hear_at_once(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 b\r\n").await;
        // And the connection is as good as any.
        peer.take_message(MESSAGE).await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = async {
        let b = send(&transport, &["b@example.org"], &next_gate).await;
        (b, send(&transport, &["c@example.org"], &AlwaysOpen).await)
    };
    let (a, (b, c), _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(b, accepted("250 2.0.0 b"));
    assert_eq!(c, accepted(TAKEN));
}

#[tokio::test]
async fn behind_a_large_message_nobody_is_announced() {
    let (_server, transport, mut peer) = used(single).await;
    let large = MESSAGE.repeat(2000);
    let outgoing = email_with(&["a@example.org"], large.as_bytes());
    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        peer.hear(&announcement(&["a@example.org"])).await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        peer.hear(&large).await;
        in_time(reached).await.unwrap();
        peer.hear_nothing().await;
        pass.send(true).unwrap();
        peer.hear_at_once(".\r\n").await;
        peer.hear_nothing().await;
        peer.say("250 2.0.0 a\r\n").await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let a = transport.send(&outgoing, &gate);
    let b = send(&transport, &["b@example.org"], &AlwaysOpen);
    let (a, b, _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, [accepted("250 2.0.0 a")]);
    assert_eq!(b, accepted(TAKEN));
}

#[tokio::test]
async fn what_ends_the_connection_at_the_dot_is_not_noticed_by_the_next() {
    let parting = "421 4.3.2 shutting down";
    let cases = [
        (format!("{parting}\r\n"), refused(Stage::FinalDot, parting)),
        (String::new(), failed(Stage::FinalDot, Cause::Disconnected)),
        ("250 2.0.0 a\r\n".to_owned(), accepted("250 2.0.0 a")),
        (
            "250 2.0.0 a\r\n421 4.7.0 too many messages\r\n".to_owned(),
            accepted("250 2.0.0 a"),
        ),
        // A server that wants RSET after it has refused a message.
        (
            "554 5.7.1 spam\r\n503 5.5.1 RSET first\r\n".to_owned(),
            refused(Stage::FinalDot, "554 5.7.1 spam"),
        ),
    ];
    for (replies, expected) in cases {
        let (server, transport, mut peer) = used(single).await;
        let (gate, reached, pass) = HeldGate::new();
        let next_gate = OpenGate::default();
        let serve = async {
            let announced = announcement(&["b@example.org"]);
            take_a(&mut peer, reached, pass, &announced).await;
            peer.say(&replies).await;
            drop(peer);
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.hear(&announcement(&["b@example.org"])).await;
            peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
            peer.hear(&format!("{MESSAGE}.\r\n")).await;
            peer.say("250 2.0.0 b\r\n").await;
            peer
        };
        let a = send(&transport, &["a@example.org"], &gate);
        let b = send(&transport, &["b@example.org"], &next_gate);
        let (a, b, _peer) = tokio::join!(a, b, serve);
        assert_eq!(a, expected, "{replies:?}");
        assert_eq!(b, accepted("250 2.0.0 b"), "{replies:?}");
        assert_eq!(next_gate.passed(), 1, "{replies:?}");
    }
}

#[tokio::test]
async fn a_refused_message_does_not_hold_up_the_one_announced_behind_it() {
    let (_server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        peer.say("554 5.7.1 spam\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 b\r\n").await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = send(&transport, &["b@example.org"], &AlwaysOpen);
    let (a, b, _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, refused(Stage::FinalDot, "554 5.7.1 spam"));
    assert_eq!(b, accepted("250 2.0.0 b"));
}

#[tokio::test]
async fn those_who_were_announced_have_results_of_their_own() {
    let (_server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let both = ["b@example.org", "c@example.org"];
    let serve = async {
        take_a(&mut peer, reached, pass, &announcement(&both)).await;
        peer.say("250 2.0.0 a\r\n250 ok\r\n550 5.1.1 who?\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 b\r\n").await;
        peer
    };
    let outgoing = email(&both);
    let a = send(&transport, &["a@example.org"], &gate);
    let b = transport.send(&outgoing, &AlwaysOpen);
    let (a, b, _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(
        b,
        [
            refused(Stage::Recipient, "550 5.1.1 who?"),
            accepted("250 2.0.0 b")
        ]
    );
}

#[tokio::test]
async fn a_connection_on_which_someone_was_announced_who_has_gone_is_thrown_away() {
    let (server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let (heard, when_heard) = oneshot::channel();
    let (gone, when_gone) = oneshot::channel();
    let next_gate = OpenGate::default();
    let serve = async {
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        heard.send(()).unwrap();
        in_time(when_gone).await.unwrap();
        peer.say("250 2.0.0 a\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        let (end, rest) = peer.hear_end().await;
        // An error, not an end: no server can take it for the end of the message.
        assert!(end.is_err());
        assert_eq!(rest, "");
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let a = async {
        let a = send(&transport, &["a@example.org"], &gate).await;
        (a, send(&transport, &["c@example.org"], &AlwaysOpen).await)
    };
    let b = async {
        tokio::select! {
            _ = send(&transport, &["b@example.org"], &next_gate) => panic!("it waits for a"),
            heard = when_heard => heard.unwrap(),
        }
        gone.send(()).unwrap();
    };
    let ((a, c), (), _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(c, accepted(TAKEN));
    assert_eq!(next_gate.passed(), 0);
}

#[tokio::test]
async fn who_leaves_the_line_makes_room_for_the_one_behind() {
    let (_server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let (left, when_left) = oneshot::channel::<()>();
    let serve = async {
        peer.hear(&announcement(&["a@example.org"])).await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        in_time(reached).await.unwrap();
        left.send(()).unwrap();
        // Those who write this test are polled in their order; now the line has moved on.
        tokio::task::yield_now().await;
        pass.send(true).unwrap();
        let announced = announcement(&["c@example.org"]);
        peer.hear_at_once(&format!("{MESSAGE}.\r\n{announced}"))
            .await;
        peer.say("250 2.0.0 a\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 c\r\n").await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = async {
        tokio::select! {
            _ = send(&transport, &["b@example.org"], &AlwaysOpen) => panic!("it waits for a"),
            left = when_left => left.unwrap(),
        }
    };
    let c = send(&transport, &["c@example.org"], &AlwaysOpen);
    let (a, (), c, _peer) = tokio::join!(a, b, c, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(c, accepted("250 2.0.0 c"));
}

#[tokio::test]
async fn nobody_is_announced_on_a_connection_that_has_carried_enough() {
    let limited = |port| {
        let mut config = single(port);
        config.messages_per_connection = 2;
        config
    };
    let (server, transport, mut peer) = used(limited).await;
    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        take_a(&mut peer, reached, pass, "").await;
        peer.say("250 2.0.0 a\r\n").await;
        peer.hear("QUIT\r\n").await;
        peer.say("221 bye\r\n").await;
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = send(&transport, &["b@example.org"], &AlwaysOpen);
    let (a, b, _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(b, accepted(TAKEN));
}

#[tokio::test]
async fn who_cannot_be_announced_as_a_whole_is_not_overtaken() {
    let (_server, transport, mut peer) = used(single).await;
    let (gate, reached, pass) = HeldGate::new();
    let both = email(&["jörg@example.org", "b@example.org"]);
    let serve = async {
        take_a(&mut peer, reached, pass, "").await;
        peer.say("250 2.0.0 a\r\n").await;
        peer.hear(&announcement(&["b@example.org"])).await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        let announced = announcement(&["c@example.org"]);
        peer.hear(&format!("{MESSAGE}.\r\n{announced}")).await;
        peer.say("250 2.0.0 b\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 c\r\n").await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = transport.send(&both, &AlwaysOpen);
    let c = send(&transport, &["c@example.org"], &AlwaysOpen);
    let (a, b, c, _peer) = tokio::join!(a, b, c, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    let cause =
        Cause::NotSupported("SMTPUTF8, which the address jörg@example.org needs".to_owned());
    assert_eq!(
        b,
        [failed(Stage::Recipient, cause), accepted("250 2.0.0 b")]
    );
    assert_eq!(c, accepted("250 2.0.0 c"));
}

#[tokio::test]
async fn who_was_announced_goes_elsewhere_when_the_answer_before_does_not_come() {
    let two = |port| {
        let mut config = config(port);
        config.connections = 2;
        config
    };
    let (server, transport, mut peer) = used(two).await;
    let (gate, reached, pass) = HeldGate::new();
    let (other_gate, other_reached, other_pass) = HeldGate::new();
    let (done, when_done) = oneshot::channel();
    let serve = async {
        // Both connections are in use when the third message comes.
        let mut other = server.greet(&["PIPELINING"]).await;
        other.hear(&announcement(&["x@example.org"])).await;
        other.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        in_time(other_reached).await.unwrap();
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        other_pass.send(true).unwrap();
        other.hear(&format!("{MESSAGE}.\r\n")).await;
        other.say("250 2.0.0 x\r\n").await;
        other.take_message(MESSAGE).await;
        in_time(when_done).await.unwrap();
        peer.say("250 2.0.0 a\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        let (end, rest) = peer.hear_end().await;
        assert!(end.is_err());
        assert_eq!(rest, "");
        other
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let x = send(&transport, &["x@example.org"], &other_gate);
    let b = async {
        let b = send(&transport, &["b@example.org"], &AlwaysOpen).await;
        done.send(()).unwrap();
        b
    };
    let (a, x, b, _other) = tokio::join!(a, x, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(x, accepted("250 2.0.0 x"));
    assert_eq!(b, accepted(TAKEN));
}

#[tokio::test]
async fn through_tls_it_is_the_same() {
    let authority = Authority::new();
    let server = Server::start().await;
    let mut config = trusting(&authority, TlsMode::Implicit, server.port());
    config.connections = 1;
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        let peer = server.accept().await;
        let mut peer = peer.secure(authority.server("localhost")).await.unwrap();
        peer.say("220 scripted.test ready\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        peer.offer(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let first = send(&transport, &["first@example.org"], &AlwaysOpen);
    let (first, mut peer) = tokio::join!(first, serve);
    assert_eq!(first, accepted(TAKEN));
    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        peer.say("250 2.0.0 a\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear_at_once(&format!("{MESSAGE}.\r\n")).await;
        peer.say("250 2.0.0 b\r\n").await;
        peer
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = send(&transport, &["b@example.org"], &AlwaysOpen);
    let (a, b, _peer) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(b, accepted("250 2.0.0 b"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_all_arrive_once_whatever_becomes_of_the_others() {
    let sink = Sink::start(SinkConfig {
        keep_messages: true,
        max_messages_per_connection: Some(7),
        ..SinkConfig::default()
    })
    .await
    .unwrap();
    let mut config = config(sink.addr().port());
    config.connections = 3;
    let transport = Arc::new(SmtpTransport::new(config).unwrap());
    // Nobody can be announced before it is known what the server offers.
    send(&transport, &["first@example.org"], &AlwaysOpen).await;
    let mut sends = JoinSet::new();
    for number in 0..300 {
        let transport = Arc::clone(&transport);
        sends.spawn(async move {
            let name = match number % 10 {
                1 => "drop",
                3 => "reject",
                5 => "tempfail-data",
                7 => "drop-after-dot",
                9 => "shutdown",
                _ => "fine",
            };
            let recipient = format!("{name}+{number}@example.org");
            let result = send(&transport, &[&recipient], &AlwaysOpen).await;
            (recipient, result)
        });
    }
    for (recipient, result) in sends.join_all().await {
        let is_accepted = matches!(result, RecipientResult::Accepted(_));
        assert_eq!(
            is_accepted,
            recipient.starts_with("fine"),
            "{recipient}: {result:?}"
        );
    }
    let mut arrived = sink.messages();
    arrived.retain(|message| message.recipients[0].starts_with("fine"));
    // None has anything of another's announcement in it.
    assert!(arrived.iter().all(|message| message.bytes == CONTENT));
    let mut recipients: Vec<&str> = arrived
        .iter()
        .map(|message| message.recipients[0].as_str())
        .collect();
    recipients.sort_unstable();
    recipients.dedup();
    assert_eq!((arrived.len(), recipients.len()), (150, 150));
}

#[tokio::test]
async fn a_server_that_is_deaf_behind_a_dot_is_told_nothing_there_any_more() {
    let brief = |port| {
        let mut config = single(port);
        config.timeouts.mail = Duration::from_millis(50);
        config
    };
    let (server, transport, mut peer) = used(brief).await;
    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        let announced = announcement(&["b@example.org"]);
        take_a(&mut peer, reached, pass, &announced).await;
        // What came behind the dot is lost.
        peer.say("250 2.0.0 a\r\n").await;
        let mut fresh = server.greet(&["PIPELINING"]).await;
        fresh.take_message(MESSAGE).await;
        fresh
    };
    let a = send(&transport, &["a@example.org"], &gate);
    let b = send(&transport, &["b@example.org"], &AlwaysOpen);
    let (a, b, mut fresh) = tokio::join!(a, b, serve);
    assert_eq!(a, accepted("250 2.0.0 a"));
    assert_eq!(b, accepted(TAKEN), "by a connection of its own");

    let (gate, reached, pass) = HeldGate::new();
    let serve = async {
        take_a(&mut fresh, reached, pass, "").await;
        fresh.hear_nothing().await;
        fresh.say("250 2.0.0 c\r\n").await;
        fresh.take_message(MESSAGE).await;
        fresh
    };
    let c = send(&transport, &["a@example.org"], &gate);
    let d = send(&transport, &["d@example.org"], &AlwaysOpen);
    let (c, d, _fresh) = tokio::join!(c, d, serve);
    assert_eq!(c, accepted("250 2.0.0 c"));
    assert_eq!(d, accepted(TAKEN));
}
