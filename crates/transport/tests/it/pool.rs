//! Connections are kept, counted, and replaced when they die.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Outgoing, Transport};
use posthaste_sink::{Sink, SinkConfig};
use posthaste_transport::SmtpTransport;
use tokio::task::JoinSet;

use crate::fixture::{
    AlwaysOpen, CONTENT, OpenGate, accepted, config, email, failed, refused, transport,
};
use crate::scripted::{Peer, Server};

const MESSAGE: &str = "Subject: hello\r\n\r\nHello.\r\n";
const TAKEN: &str = "250 2.0.0 taken";

async fn send(transport: &SmtpTransport) -> RecipientResult {
    let email = email(&["bob@example.org"]);
    transport.send(&email, &AlwaysOpen).await.remove(0)
}

/// Hears MAIL, RCPT and DATA.
async fn hear_announcement(peer: &mut Peer) {
    peer.hear("MAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n")
        .await;
}

#[tokio::test]
async fn messages_one_after_the_other_share_a_connection() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        for _ in 0..5 {
            peer.take_message(MESSAGE).await;
        }
        peer
    };
    let send = async {
        for _ in 0..5 {
            assert_eq!(send(&transport).await, accepted(TAKEN));
        }
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_connection_is_made_ready_again_after_a_failure() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut peer).await;
        peer.say("250 ok\r\n550 5.1.1 who?\r\n503 5.5.1 for whom?\r\n")
            .await;
        // Together with what follows, at no cost.
        peer.hear("RSET\r\n").await;
        hear_announcement(&mut peer).await;
        peer.say("250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n")
            .await;
        peer.hear(MESSAGE).await;
        peer.hear(".\r\n").await;
        peer.say("250 2.0.0 taken\r\n").await;
        // And once is enough.
        peer.take_message(MESSAGE).await;
        peer
    };
    let send = async {
        let first = send(&transport).await;
        assert_eq!(first, refused(Stage::Recipient, "550 5.1.1 who?"));
        assert_eq!(send(&transport).await, accepted(TAKEN));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_pooled_connection_that_was_closed_is_replaced_unnoticed() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer.say("421 4.4.2 idle for too long\r\n").await;
        drop(peer);
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_pooled_connection_that_dies_at_mail_is_replaced_unnoticed() {
    for parting in ["", "421 4.7.0 too many messages\r\n"] {
        let server = Server::start().await;
        let transport = transport(server.port());
        let gate = OpenGate::default();
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.take_message(MESSAGE).await;
            hear_announcement(&mut peer).await;
            peer.say(parting).await;
            drop(peer);
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.take_message(MESSAGE).await;
            peer
        };
        let send = async {
            assert_eq!(send(&transport).await, accepted(TAKEN));
            let email = email(&["bob@example.org"]);
            assert_eq!(transport.send(&email, &gate).await, [accepted(TAKEN)]);
        };
        tokio::join!(send, serve);
        assert_eq!(gate.passed(), 1);
    }
}

#[tokio::test]
async fn a_pooled_connection_that_cannot_be_reset_is_replaced_unnoticed() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut peer).await;
        peer.say("451 4.3.0 later\r\n503 no\r\n503 no\r\n").await;
        peer.hear("RSET\r\n").await;
        peer.say("500 5.5.1 what?\r\n").await;
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer
    };
    let send = async {
        let first = send(&transport).await;
        assert_eq!(first, refused(Stage::MailFrom, "451 4.3.0 later"));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_a_failure() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        hear_announcement(&mut peer).await;
        drop(peer);
        let mut peer = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut peer).await;
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        let second = send(&transport).await;
        assert_eq!(second, failed(Stage::MailFrom, Cause::Disconnected));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_pooled_connection_that_dies_after_the_reply_to_mail_is_a_failure() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        hear_announcement(&mut peer).await;
        peer.say("250 ok\r\n").await;
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        let second = send(&transport).await;
        assert_eq!(second, failed(Stage::Recipient, Cause::Disconnected));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_connection_that_lost_a_reply_to_the_dot_is_not_used_again() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.timeouts.dot = Duration::from_millis(100);
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        let mut first = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut first).await;
        first.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        first.hear_bytes(CONTENT).await;
        first.hear(".\r\n").await;
        let (end, rest) = first.hear_end().await;
        // The dot was written: it ends as any connection does.
        assert!(end.is_ok());
        assert_eq!(rest, "");
        let mut second = server.greet(&["PIPELINING"]).await;
        second.take_message(MESSAGE).await;
        second
    };
    let send = async {
        let first = send(&transport).await;
        assert_eq!(first, failed(Stage::FinalDot, Cause::Timeout));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_421_to_the_dot_is_an_answer_and_ends_the_connection() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut first = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut first).await;
        first.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        first.hear_bytes(CONTENT).await;
        first.hear(".\r\n").await;
        first.say("421 4.3.2 shutting down\r\n").await;
        let mut second = server.greet(&["PIPELINING"]).await;
        second.take_message(MESSAGE).await;
        (first, second)
    };
    let send = async {
        let first = send(&transport).await;
        assert_eq!(first, refused(Stage::FinalDot, "421 4.3.2 shutting down"));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_connection_with_a_reply_too_many_is_not_used_again() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut first = server.greet(&["PIPELINING"]).await;
        hear_announcement(&mut first).await;
        first.say("250 ok\r\n250 ok\r\n354 go on\r\n").await;
        first.hear_bytes(CONTENT).await;
        first.hear(".\r\n").await;
        first
            .say("250 2.0.0 taken\r\n250 2.0.0 and once more\r\n")
            .await;
        let mut second = server.greet(&["PIPELINING"]).await;
        second.take_message(MESSAGE).await;
        (first, second)
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_connection_is_retired_politely_after_its_last_message() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.messages_per_connection = 2;
    config.connections = 1;
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        for count in [2, 2, 1] {
            let mut peer = server.greet(&["PIPELINING"]).await;
            for _ in 0..count {
                peer.take_message(MESSAGE).await;
            }
            if count == 2 {
                peer.hear("QUIT\r\n").await;
                // The next message waits: there may be one connection, and this one is open.
                server.expect_no_connection().await;
                peer.say("221 bye\r\n").await;
                assert!(peer.hear_end().await.0.is_ok());
            }
        }
    };
    let send = async {
        for _ in 0..5 {
            assert_eq!(send(&transport).await, accepted(TAKEN));
        }
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn a_server_that_does_not_answer_quit_is_left_after_a_moment() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.messages_per_connection = 1;
    config.connections = 1;
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        let mut first = server.greet(&["PIPELINING"]).await;
        first.take_message(MESSAGE).await;
        let mut second = server.greet(&["PIPELINING"]).await;
        second.take_message(MESSAGE).await;
        (first, second)
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        assert_eq!(send(&transport).await, accepted(TAKEN));
    };
    tokio::join!(send, serve);
}

#[tokio::test]
async fn an_unused_connection_is_closed_at_the_idle_limit() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.idle_limit = Duration::from_millis(50);
    let transport = SmtpTransport::new(config).unwrap();
    // More than once: who watches goes home when nothing is idle, and must come back.
    for _ in 0..3 {
        let serve = async {
            let mut peer = server.greet(&["PIPELINING"]).await;
            peer.take_message(MESSAGE).await;
            peer.hear("QUIT\r\n").await;
            peer.say("221 bye\r\n").await;
            assert!(peer.hear_end().await.0.is_ok());
        };
        let (result, ()) = tokio::join!(send(&transport), serve);
        assert_eq!(result, accepted(TAKEN));
    }
}

#[tokio::test]
async fn closing_says_goodbye_on_unused_connections() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        peer.hear("QUIT\r\n").await;
        peer.say("221 bye\r\n").await;
        assert!(peer.hear_end().await.0.is_ok());
    };
    let send = async {
        assert_eq!(send(&transport).await, accepted(TAKEN));
        transport.close().await;
    };
    tokio::join!(send, serve);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_more_connections_than_allowed() {
    let sink = Sink::start(SinkConfig::default()).await.unwrap();
    let mut config = config(sink.addr().port());
    config.connections = 3;
    let transport = std::sync::Arc::new(SmtpTransport::new(config).unwrap());
    let mut sends = JoinSet::new();
    for _ in 0..100 {
        let transport = std::sync::Arc::clone(&transport);
        sends.spawn(async move { send(&transport).await });
    }
    for result in sends.join_all().await {
        assert!(matches!(result, RecipientResult::Accepted(_)), "{result:?}");
    }
    let report = sink.report();
    assert_eq!(report.messages, 100);
    assert_eq!(report.connections, 3);
}

#[tokio::test]
async fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    let sink = Sink::start(SinkConfig {
        keep_messages: true,
        ..SinkConfig::default()
    })
    .await
    .unwrap();
    let mut config = config(sink.addr().port());
    config.connections = 1;
    let transport = std::sync::Arc::new(SmtpTransport::new(config).unwrap());
    let gate = std::sync::Arc::new(OpenGate::default());
    let mut sends = JoinSet::new();
    for number in 0..20 {
        let transport = std::sync::Arc::clone(&transport);
        let gate = std::sync::Arc::clone(&gate);
        let recipient = format!("number{number}@example.org");
        sends.spawn(async move {
            let email: Outgoing = email(&[&recipient]);
            transport.send(&email, &*gate).await
        });
        // The task runs until it waits; on this runtime, nothing else does meanwhile.
        tokio::task::yield_now().await;
    }
    sends.join_all().await;
    let order: Vec<String> = sink
        .messages()
        .iter()
        .map(|message| message.recipients[0].clone())
        .collect();
    let expected: Vec<String> = (0..20)
        .map(|number| format!("number{number}@example.org"))
        .collect();
    assert_eq!(order, expected);
}
