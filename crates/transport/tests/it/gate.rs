//! The final dot and the gate before it.

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::port::Transport;

use crate::fixture::{
    CONTENT, HeldGate, OpenGate, ShutGate, accepted, email, email_with, failed, protocol_broken_at,
    refused, transport,
};
use crate::scripted::{Peer, Server, in_time};

/// One message that is written together with its dot, and one that is on its way before the gate.
fn contents() -> [Vec<u8>; 2] {
    [CONTENT.to_vec(), CONTENT.repeat(2000)]
}

/// Takes as much as is sent before the gate is passed; what is left.
async fn take_content<'a>(peer: &mut Peer, content: &'a [u8]) -> &'a [u8] {
    peer.hear_line().await;
    peer.hear("RCPT TO:<bob@example.org>\r\nDATA\r\n").await;
    peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
    take_large(peer, content).await
}

async fn take_large<'a>(peer: &mut Peer, content: &'a [u8]) -> &'a [u8] {
    if content.len() == CONTENT.len() {
        return content;
    }
    peer.hear_bytes(content).await;
    b""
}

#[tokio::test]
async fn the_dot_is_not_on_the_wire_before_the_gate_was_passed() {
    for content in contents() {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email_with(&["bob@example.org"], &content);
        let (gate, reached, answer) = HeldGate::new();
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            let rest = take_content(&mut peer, &content).await;
            in_time(reached).await.unwrap();
            peer.hear_nothing().await;
            answer.send(true).unwrap();
            peer.hear_bytes(rest).await;
            peer.hear(".\r\n").await;
            assert!(peer.received.ends_with(b"\r\nHello.\r\n.\r\n"));
            peer.say("250 2.0.0 taken\r\n").await;
            peer
        };
        let (results, _peer) = tokio::join!(transport.send(&email, &gate), serve);
        assert_eq!(results, [accepted("250 2.0.0 taken")]);
    }
}

#[tokio::test]
async fn a_lost_lease_ends_the_connection_without_a_dot() {
    for content in (0..20).flat_map(|_| contents()) {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email_with(&["bob@example.org", "refused@example.org"], &content);
        let (gate, reached, answer) = HeldGate::new();
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.hear_line().await;
            peer.hear("RCPT TO:<bob@example.org>\r\nRCPT TO:<refused@example.org>\r\nDATA\r\n")
                .await;
            peer.say("250 ok\r\n250 ok\r\n550 5.1.1 no\r\n354 go on\r\n")
                .await;
            take_large(&mut peer, &content).await;
            in_time(reached).await.unwrap();
            answer.send(false).unwrap();
            peer.hear_end().await
        };
        let (results, (end, rest)) = tokio::join!(transport.send(&email, &gate), serve);
        assert_eq!(
            results,
            [
                failed(Stage::Gate, Cause::LeaseLost),
                refused(Stage::Recipient, "550 5.1.1 no"),
            ]
        );
        assert_eq!(rest, "");
        // An error, not an end: no server can take it for the end of the message.
        assert!(end.is_err());
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_at_the_gate_leaves_no_message_behind() {
    for content in contents() {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email_with(&["bob@example.org"], &content);
        let (gate, reached, _answer) = HeldGate::new();
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            take_content(&mut peer, &content).await;
            peer
        };
        let mut peer = tokio::select! {
            _ = transport.send(&email, &gate) => panic!("it waits for the gate"),
            (peer, _) = async { tokio::join!(serve, in_time(reached)) } => peer,
        };
        let (end, rest) = peer.hear_end().await;
        assert!(end.is_err());
        assert_eq!(rest, "");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_during_the_gate_has_not_taken_the_message() {
    for content in contents() {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email_with(&["bob@example.org"], &content);
        let (gate, reached, answer) = HeldGate::new();
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            take_content(&mut peer, &content).await;
            in_time(reached).await.unwrap();
            peer.say("421 4.3.2 shutting down\r\n").await;
            drop(peer);
            answer.send(true).unwrap();
        };
        let (results, ()) = tokio::join!(transport.send(&email, &gate), serve);
        // Whether the hang-up is seen in time is up to the kernel. If it is, it is certain that
        // nothing was sent; if not, the reply says so.
        let reply = "421 4.3.2 shutting down";
        assert!(
            results == [refused(Stage::Body, reply)]
                || results == [refused(Stage::FinalDot, reply)],
            "{results:?}"
        );
    }
}

#[tokio::test]
async fn a_reply_before_the_dot_is_not_taken_for_the_reply_to_the_dot() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.hear_line().await;
        peer.hear("RCPT TO:<bob@example.org>\r\nDATA\r\n").await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n250 2.0.0 one too many\r\n")
            .await;
        peer.hear_end().await
    };
    let (results, (_, rest)) = tokio::join!(transport.send(&email, &gate), serve);
    assert_eq!(protocol_broken_at(&results[0]), Some(Stage::Body));
    assert_eq!(gate.passed(), 0);
    assert!(!rest.contains("\\r\\n.\\r\\n"));
}

#[tokio::test]
async fn a_shut_gate_sends_nothing_to_anyone() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org"]);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.hear_line().await;
        peer.hear("RCPT TO:<bob@example.org>\r\nDATA\r\n").await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        peer.hear_end().await.1
    };
    let (results, rest) = tokio::join!(transport.send(&email, &ShutGate), serve);
    assert_eq!(results, [failed(Stage::Gate, Cause::LeaseLost)]);
    assert!(!rest.contains("\\r\\n.\\r\\n"));
}
