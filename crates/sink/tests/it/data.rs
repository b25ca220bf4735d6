//! What is data, what ends it, and what is kept of it.

use std::time::{Duration, Instant};

use crate::client::{Client, sink, sink_with};

#[tokio::test]
async fn a_message_arrives_byte_for_byte() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["Bob@X.test"]).await;
    client
        .expect(
            "Message-Id:\r\n <a@b>\r\n\r\n..\r\n...x\r\nlone\nLF.\r\n.",
            "250 2.0.0 ",
        )
        .await;
    let messages = sink.messages();
    let [message] = &messages[..] else {
        panic!("one message, not {}", messages.len());
    };
    let expected = "Message-Id:\r\n <a@b>\r\n\r\n.\r\n..x\r\nlone\nLF.\r\n";
    assert_eq!(message.bytes, expected.as_bytes());
    assert_eq!(message.from, "from@test");
    assert_eq!(message.recipients, ["Bob@X.test"]);
    assert_eq!(message.message_id.as_deref(), Some("a@b"));
    assert!(message.peer.ip().is_loopback());
    assert!(!message.tls);
    assert_eq!(message.user, None);
}

#[tokio::test]
async fn the_final_dot_is_found_when_every_byte_comes_alone() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    for byte in ["a", "\r", "\n", ".", ".", "\r", "\n", ".", "\r", "\n"] {
        client.send(byte).await;
        // Gives the server a turn, so that it sees the bytes one by one.
        tokio::task::yield_now().await;
    }
    assert!(client.reply().await.starts_with("250 "));
    assert_eq!(sink.messages()[0].bytes, b"a\r\n.\r\n");
}

#[tokio::test]
async fn a_lone_lf_around_a_dot_does_not_end_the_data() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for fake in ["\n.\n", "\r\n.\n", "\n.\r\n", "\r.\r", "\r\n.\r"] {
        client.envelope(&["bob@x"]).await;
        client
            .send(&format!("a{fake}MAIL FROM:<smuggled@x>\r\n.\r\n"))
            .await;
        assert!(client.reply().await.starts_with("250 2.0.0 "));
        client.expect("NOOP", "250 2.0.0 Ok").await;
    }
    assert_eq!(sink.accepted(), 5);
    for message in sink.messages() {
        assert!(message.bytes.ends_with(b"MAIL FROM:<smuggled@x>\r\n"));
    }
}

#[tokio::test]
async fn an_empty_message_is_a_message() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    client.expect(".", "250 ").await;
    assert!(sink.messages()[0].bytes.is_empty());
    assert_eq!(sink.report().messages_without_id, 1);
}

#[tokio::test]
async fn a_large_message_arrives_whole() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    let line = format!("{}\r\n", "x".repeat(76));
    let body = line.repeat(40_000);
    client.send(&body).await;
    client.expect(".", "250 ").await;
    assert!(sink.messages()[0].bytes == body.as_bytes());
}

#[tokio::test]
async fn a_message_over_the_limit_is_read_to_its_end_and_refused() {
    let sink = sink_with(|config| config.max_size = 1000).await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    client.send(&"0123456789\r\n".repeat(10_000)).await;
    client.expect(".", "552 5.3.4 ").await;
    let reply = client.deliver("a", &["bob@x"]).await;
    assert!(reply.starts_with("250 "), "{reply}");
    assert_eq!(sink.accepted(), 1);
}

#[tokio::test]
async fn a_message_announced_over_the_limit_is_refused_at_mail() {
    let sink = sink_with(|config| config.max_size = 1000).await;
    let mut client = Client::greet(&sink).await;
    client
        .expect("MAIL FROM:<a@x> SIZE=1001", "552 5.3.4 ")
        .await;
    client
        .expect("MAIL FROM:<a@x> SIZE=99999999999999999999", "552 5.3.4 ")
        .await;
    client.expect("MAIL FROM:<a@x> SIZE=x", "501 5.5.4 ").await;
    client.expect("MAIL FROM:<a@x> SIZE=1000", "250 ").await;
}

#[tokio::test]
async fn a_message_cut_short_by_the_client_is_not_accepted() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    client.send("Message-ID: <a>\r\n\r\nhalf\r\n.\r").await;
    drop(client);
    let mut other = Client::greet(&sink).await;
    other.deliver("b", &["bob@x"]).await;
    assert_eq!(sink.accepted(), 1);
    assert_eq!(sink.copies("a", "bob@x"), 0);
}

#[tokio::test]
async fn messages_are_counted_but_not_kept_unless_asked_for() {
    let sink = sink_with(|config| config.keep_messages = false).await;
    let mut client = Client::greet(&sink).await;
    client.deliver("a", &["bob@x"]).await;
    assert_eq!(sink.copies("a", "bob@x"), 1);
    assert!(sink.messages().is_empty());
}

#[tokio::test]
async fn a_message_arrives_before_the_wait_for_its_reply() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let began = Instant::now();
    client.deliver("a", &["slow80+1@x"]).await;
    let answered = Instant::now();
    let messages = sink.messages();
    let arrived = messages[0].arrived_at;
    assert!(arrived >= began);
    assert!(answered.duration_since(arrived) >= Duration::from_millis(80));
}
