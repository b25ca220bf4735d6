//! Every recipient gets a result of their own.

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;

use crate::fixture::{CONTENT, OpenGate, accepted, email, failed, refused, transport};
use crate::scripted::{Peer, Server};

const THREE: [&str; 3] = ["a@example.org", "b@example.org", "c@example.org"];
const MAIL: &str = "MAIL FROM:<ann@example.org>\r\n";
const RECIPIENTS: [&str; 3] = [
    "RCPT TO:<a@example.org>\r\n",
    "RCPT TO:<b@example.org>\r\n",
    "RCPT TO:<c@example.org>\r\n",
];

/// Sends to three recipients of a server that answers MAIL, RCPT and DATA with `replies`, all
/// at once, and then does `and_then`.
async fn send_to_three<T>(
    replies: &str,
    and_then: impl AsyncFnOnce(Peer) -> T,
) -> (Vec<RecipientResult>, T, u32) {
    let server = Server::start().await;
    let transport = transport(server.port());
    let gate = OpenGate::default();
    let outgoing = email(&THREE);
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.hear(&format!("{MAIL}{}DATA\r\n", RECIPIENTS.concat()))
            .await;
        peer.say(replies).await;
        and_then(peer).await
    };
    let (results, value) = tokio::join!(transport.send(&outgoing, &gate), serve);
    (results, value, gate.passed())
}

#[tokio::test]
async fn the_message_goes_to_those_who_were_accepted() {
    let replies = "250 ok\r\n250 ok\r\n550 5.1.1 who?\r\n251 forwarded\r\n354 go on\r\n";
    let (results, _peer, _) = send_to_three(replies, async |mut peer: Peer| {
        peer.hear_bytes(CONTENT).await;
        peer.hear(".\r\n").await;
        peer.say("250 2.0.0 taken\r\n").await;
        peer
    })
    .await;
    assert_eq!(
        results,
        [
            accepted("250 2.0.0 taken"),
            refused(Stage::Recipient, "550 5.1.1 who?"),
            accepted("250 2.0.0 taken"),
        ]
    );
}

#[tokio::test]
async fn a_refused_message_fails_only_for_those_who_were_accepted() {
    let replies = "250 ok\r\n250 ok\r\n451 4.7.1 later\r\n250 ok\r\n354 go on\r\n";
    let (results, _peer, _) = send_to_three(replies, async |mut peer: Peer| {
        peer.hear_bytes(CONTENT).await;
        peer.hear(".\r\n").await;
        peer.say("554 5.7.1 spam\r\n").await;
        peer
    })
    .await;
    assert_eq!(
        results,
        [
            refused(Stage::FinalDot, "554 5.7.1 spam"),
            refused(Stage::Recipient, "451 4.7.1 later"),
            refused(Stage::FinalDot, "554 5.7.1 spam"),
        ]
    );
}

#[tokio::test]
async fn a_refused_sender_fails_for_all_whatever_the_replies_to_rcpt_are() {
    let replies = "550 5.7.1 not you\r\n503 no\r\n250 ok\r\n503 no\r\n503 no\r\n";
    let (results, _peer, gate) = send_to_three(replies, async |peer| peer).await;
    assert_eq!(
        results,
        vec![refused(Stage::MailFrom, "550 5.7.1 not you"); 3]
    );
    assert_eq!(gate, 0);
}

#[tokio::test]
async fn a_refused_sender_is_the_reason_even_if_the_server_then_hangs_up() {
    let replies = "550 5.7.1 not you\r\n";
    let (results, (), _) = send_to_three(replies, async |peer| drop(peer)).await;
    assert_eq!(
        results,
        vec![refused(Stage::MailFrom, "550 5.7.1 not you"); 3]
    );
}

#[tokio::test]
async fn a_refused_data_fails_for_those_who_were_accepted() {
    let replies = "250 ok\r\n250 ok\r\n550 5.1.1 who?\r\n250 ok\r\n451 4.3.0 later\r\n";
    let (results, _peer, gate) = send_to_three(replies, async |peer| peer).await;
    assert_eq!(
        results,
        [
            refused(Stage::Data, "451 4.3.0 later"),
            refused(Stage::Recipient, "550 5.1.1 who?"),
            refused(Stage::Data, "451 4.3.0 later"),
        ]
    );
    assert_eq!(gate, 0);
}

#[tokio::test]
async fn nothing_is_sent_when_data_is_accepted_although_nobody_was() {
    let replies = "250 ok\r\n550 1\r\n550 2\r\n450 3\r\n354 go on\r\n";
    let (results, rest, gate) =
        send_to_three(replies, async |mut peer: Peer| peer.hear_end().await.1).await;
    assert_eq!(
        results,
        [
            refused(Stage::Recipient, "550 1"),
            refused(Stage::Recipient, "550 2"),
            refused(Stage::Recipient, "450 3"),
        ]
    );
    assert_eq!(rest, "");
    assert_eq!(gate, 0);
}

#[tokio::test]
async fn a_server_that_hangs_up_among_the_recipients_leaves_only_its_refusals() {
    let replies = "250 ok\r\n250 ok\r\n550 5.1.1 who?\r\n";
    let (results, (), _) = send_to_three(replies, async |peer| drop(peer)).await;
    assert_eq!(
        results,
        [
            failed(Stage::Recipient, Cause::Disconnected),
            refused(Stage::Recipient, "550 5.1.1 who?"),
            failed(Stage::Recipient, Cause::Disconnected),
        ]
    );
}

#[tokio::test]
async fn a_421_among_the_recipients_is_the_reason_for_all_who_were_not_refused() {
    let replies = "250 ok\r\n550 5.1.1 who?\r\n421 4.3.2 shutting down\r\n";
    let (results, (), _) = send_to_three(replies, async |peer| drop(peer)).await;
    assert_eq!(
        results,
        [
            refused(Stage::Recipient, "550 5.1.1 who?"),
            refused(Stage::Recipient, "421 4.3.2 shutting down"),
            refused(Stage::Recipient, "421 4.3.2 shutting down"),
        ]
    );
}

#[tokio::test]
async fn without_pipelining_no_data_follows_when_nobody_was_accepted() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let gate = OpenGate::default();
    let outgoing = email(&["a@example.org"]);
    let next = email(&["b@example.org"]);
    let serve = async {
        let mut peer = server.greet(&[]).await;
        peer.hear(MAIL).await;
        peer.say("250 ok\r\n").await;
        peer.hear(RECIPIENTS[0]).await;
        peer.say("550 5.1.1 who?\r\n").await;
        // The same connection, made ready again.
        peer.hear("RSET\r\n").await;
        peer.say("250 ok\r\n").await;
        peer.hear(MAIL).await;
        peer.say("451 4.3.0 later\r\n").await;
        peer
    };
    let send = async {
        let first = transport.send(&outgoing, &gate).await;
        (first, transport.send(&next, &gate).await)
    };
    let ((first, second), _peer) = tokio::join!(send, serve);
    assert_eq!(first, [refused(Stage::Recipient, "550 5.1.1 who?")]);
    assert_eq!(second, [refused(Stage::MailFrom, "451 4.3.0 later")]);
}
