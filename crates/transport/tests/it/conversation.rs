//! What goes over the wire, byte by byte.

use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::port::Transport;

use crate::fixture::{
    AlwaysOpen, OpenGate, accepted, config, email, email_with, failed, transport,
};
use crate::scripted::Server;
use posthaste_transport::SmtpTransport;

#[tokio::test]
async fn with_pipelining_everything_before_the_message_comes_at_once() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org", "eve@example.org"]);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING", "SIZE 1000"]).await;
        // No reply before all of it was heard.
        peer.hear(
            "MAIL FROM:<ann@example.org> SIZE=26\r\nRCPT TO:<bob@example.org>\r\n\
             RCPT TO:<eve@example.org>\r\nDATA\r\n",
        )
        .await;
        peer.say("250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear("Subject: hello\r\n\r\nHello.\r\n.\r\n").await;
        peer.say("250-2.0.0 taken\r\n250 2.0.0 as 17\r\n").await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    assert_eq!(results, vec![accepted("250 2.0.0 taken as 17"); 2]);
}

#[tokio::test]
async fn without_pipelining_every_command_waits_for_its_reply() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org", "eve@example.org"]);
    let serve = async {
        let mut peer = server.greet(&[]).await;
        for command in [
            "MAIL FROM:<ann@example.org>\r\n",
            "RCPT TO:<bob@example.org>\r\n",
            "RCPT TO:<eve@example.org>\r\n",
        ] {
            peer.hear(command).await;
            peer.hear_nothing().await;
            peer.say("250 ok\r\n").await;
        }
        peer.hear("DATA\r\n").await;
        peer.hear_nothing().await;
        peer.say("354 go on\r\n").await;
        peer.hear("Subject: hello\r\n\r\nHello.\r\n.\r\n").await;
        peer.say("250 2.0.0 taken\r\n").await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    assert_eq!(results, vec![accepted("250 2.0.0 taken"); 2]);
}

#[tokio::test]
async fn a_thousand_recipients_are_asked_in_windows_that_both_sides_can_hold() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let names: Vec<String> = (0..1000)
        .map(|number| format!("someone.with.a.long.name.{number}@example.org"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let email = email(&names);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        let mut accepted = 0;
        let mut waiting = (0, 0);
        loop {
            let line = peer.hear_line().await;
            if line == "DATA\r\n" {
                break;
            }
            accepted += 1;
            waiting = (waiting.0 + 1, waiting.1 + line.len());
            if waiting.1 > 32 * 1024 {
                // No more comes until this much is answered.
                peer.hear_nothing().await;
                peer.say(&"250 ok\r\n".repeat(waiting.0)).await;
                waiting = (0, 0);
            }
        }
        assert_eq!(accepted, 1001);
        peer.say(&"250 ok\r\n".repeat(waiting.0)).await;
        peer.say("354 go on\r\n").await;
        peer.hear("Subject: hello\r\n\r\nHello.\r\n.\r\n").await;
        peer.say("250 2.0.0 taken\r\n").await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    assert_eq!(results, vec![accepted("250 2.0.0 taken"); 1000]);
}

/// The parameters of MAIL for this content and recipient.
async fn mail_line(extensions: &[&str], recipient: &str, content: &[u8]) -> String {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email_with(&[recipient], content);
    let serve = async {
        let mut peer = server.greet(extensions).await;
        peer.hear_line().await
    };
    let (_, line) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    line
}

#[tokio::test]
async fn mail_carries_what_the_server_offers_and_the_message_needs() {
    let all = ["SIZE", "8BITMIME", "SMTPUTF8"];
    let cases = [
        (&all[..], "bob@example.org", "x\r\n", " SIZE=3"),
        (
            &all[..],
            "bob@example.org",
            "ä\r\n",
            " SIZE=4 BODY=8BITMIME",
        ),
        (&all[..], "jörg@example.org", "x\r\n", " SIZE=3 SMTPUTF8"),
        // The missing line end is sent, and counted.
        (&all[..], "bob@example.org", "x", " SIZE=3"),
        // Sent all the same.
        (&[][..], "bob@example.org", "ä\r\n", ""),
    ];
    for (extensions, recipient, content, parameters) in cases {
        assert_eq!(
            mail_line(extensions, recipient, content.as_bytes()).await,
            format!("MAIL FROM:<ann@example.org>{parameters}\r\n"),
            "{recipient} {content:?}"
        );
    }
}

#[tokio::test]
async fn an_address_that_needs_smtputf8_fails_alone_where_it_is_not_offered() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["jörg@example.org", "bob@example.org"]);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.hear("MAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n")
            .await;
        peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        peer.hear("Subject: hello\r\n\r\nHello.\r\n.\r\n").await;
        peer.say("250 2.0.0 taken\r\n").await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
    let cause =
        Cause::NotSupported("SMTPUTF8, which the address jörg@example.org needs".to_owned());
    assert_eq!(
        results,
        [failed(Stage::Recipient, cause), accepted("250 2.0.0 taken")]
    );
}

#[tokio::test]
async fn a_sender_that_needs_smtputf8_is_not_even_tried_where_it_is_not_offered() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let mut outgoing = email(&["bob@example.org"]);
    outgoing.from = Address::parse("jörg@example.org").unwrap();
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        // The connection is as good as new, and serves the next email.
        peer.take_message("Subject: hello\r\n\r\nHello.\r\n").await;
        peer
    };
    let next = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let send = async {
        let first = transport.send(&outgoing, &gate).await;
        (first, transport.send(&next, &gate).await)
    };
    let ((first, second), _peer) = tokio::join!(send, serve);
    let cause =
        Cause::NotSupported("SMTPUTF8, which the address jörg@example.org needs".to_owned());
    assert_eq!(first, [failed(Stage::MailFrom, cause)]);
    assert_eq!(second, [accepted("250 2.0.0 taken")]);
}

#[tokio::test]
async fn a_message_larger_than_the_server_takes_is_not_even_tried() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let large = email_with(&["bob@example.org", "eve@example.org"], &[b'x'; 100]);
    let small = email_with(&["bob@example.org"], b"just so: 12 + 2 + line end\r\n");
    let serve = async {
        let mut peer = server.greet(&["PIPELINING", "SIZE 28"]).await;
        peer.take_message("just so: 12 + 2 + line end\r\n").await;
        peer
    };
    let gate = OpenGate::default();
    let send = async {
        let first = transport.send(&large, &gate).await;
        (first, transport.send(&small, &gate).await)
    };
    let ((first, second), _peer) = tokio::join!(send, serve);
    let cause = Cause::TooLarge {
        size: 102,
        limit: 28,
    };
    assert_eq!(first, vec![failed(Stage::MailFrom, cause); 2]);
    assert_eq!(second, [accepted("250 2.0.0 taken")]);
}

#[tokio::test]
async fn a_server_that_does_not_know_ehlo_is_greeted_with_helo() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let email = email(&["bob@example.org"]);
    let serve = async {
        let mut peer = server.accept().await;
        peer.say("220 old.test\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        peer.say("502 what?\r\n").await;
        peer.hear("HELO client.test\r\n").await;
        peer.say("250 old.test\r\n").await;
        peer.hear("MAIL FROM:<ann@example.org>\r\n").await;
        peer.say("550 no\r\n").await;
    };
    tokio::join!(transport.send(&email, &AlwaysOpen), serve);
}

#[tokio::test]
async fn without_a_name_of_our_own_our_address_is_given() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.client_name = None;
    let transport = SmtpTransport::new(config).unwrap();
    let email = email(&["bob@example.org"]);
    let serve = async {
        let mut peer = server.accept().await;
        peer.say("220 scripted.test\r\n").await;
        peer.hear("EHLO [127.0.0.1]\r\n").await;
    };
    tokio::join!(transport.send(&email, &AlwaysOpen), serve);
}

#[tokio::test]
async fn messages_of_all_sizes_arrive_byte_for_byte() {
    let line = b".leading dot, a longer line with a . in it, \x00\xff and the end\r\n";
    let with_dots = line.repeat(5000);
    let without_dots = b"no leading dot in any of these many lines\r\n".repeat(10_000);
    let mixed = [&without_dots[..], b".\r\n..\r\n", &without_dots[..]].concat();
    for content in [
        &b".\r\n"[..],
        b"",
        b"x",
        b"bare\n.\nnewlines\n.\r\n.\r\n",
        &with_dots,
        &without_dots,
        &mixed,
    ] {
        let server = Server::start().await;
        let transport = transport(server.port());
        let email = email_with(&["bob@example.org"], content);
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.hear_line().await;
            peer.hear("RCPT TO:<bob@example.org>\r\nDATA\r\n").await;
            peer.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
            peer.hear_bytes(&stuffed(content)).await;
            peer.hear(".\r\n").await;
            peer.say("250 2.0.0 taken\r\n").await;
            peer
        };
        let (results, _peer) = tokio::join!(transport.send(&email, &AlwaysOpen), serve);
        assert_eq!(results, [accepted("250 2.0.0 taken")]);
    }
}

/// Dot-stuffing as one would write it without caring for speed.
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, &byte) in content.iter().enumerate() {
        let starts_line = index == 0 || content[..index].ends_with(b"\r\n");
        if starts_line && byte == b'.' {
            out.push(b'.');
        }
        out.push(byte);
    }
    if !content.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out
}
