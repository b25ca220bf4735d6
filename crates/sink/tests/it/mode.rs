//! Changing the behaviour of the whole server while it runs.

use std::time::{Duration, Instant};

use posthaste_sink::Mode;

use crate::client::{Client, message, sink, sink_with};

#[tokio::test]
async fn refusing_connections_closes_new_ones_at_once_and_open_ones_at_their_next_command() {
    let sink = sink().await;
    let mut open = Client::greet(&sink).await;
    sink.set_mode(Mode::RefuseConnections);
    assert!(Client::dial(&sink).await.is_closed().await);
    open.send("NOOP\r\n").await;
    assert!(open.is_closed().await);
    sink.set_mode(Mode::Normal);
    Client::greet(&sink).await;
}

#[tokio::test]
async fn tempfail_all_puts_off_recipients_and_a_dot_under_way() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    sink.set_mode(Mode::TempfailAll);
    client.send(&message("a")).await;
    assert!(client.reply().await.starts_with("451 4.3.0 "));
    assert!(client.name("bob@x").await.starts_with("451 4.3.0 "));
    sink.set_mode(Mode::Normal);
    client.expect("RCPT TO:<bob@x>", "250 ").await;
    assert_eq!(sink.accepted(), 0);
}

#[tokio::test]
async fn reject_all_refuses_recipients_and_a_dot_under_way() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    sink.set_mode(Mode::RejectAll);
    client.send(&message("a")).await;
    assert!(client.reply().await.starts_with("554 5.6.0 "));
    assert!(client.name("bob@x").await.starts_with("550 5.1.1 "));
    assert_eq!(sink.accepted(), 0);
}

#[tokio::test]
async fn hang_all_is_silent_from_the_greeting_to_the_dot() {
    let sink = sink().await;
    let mut in_data = Client::greet(&sink).await;
    in_data.envelope(&["bob@x"]).await;
    let mut idle = Client::greet(&sink).await;
    sink.set_mode(Mode::HangAll);
    let mut new = Client::dial(&sink).await;
    idle.send("NOOP\r\n").await;
    in_data.send(&message("a")).await;
    sink.wait_for(1).await;
    assert!(new.hears_nothing().await);
    assert!(idle.hears_nothing().await);
    assert!(in_data.hears_nothing().await);
}

#[tokio::test]
async fn delay_holds_back_the_answer_to_the_dot() {
    let sink = sink().await;
    sink.set_mode(Mode::Delay(Duration::from_millis(60)));
    let mut client = Client::greet(&sink).await;
    client.envelope(&["bob@x"]).await;
    let start = Instant::now();
    client.send(&message("a")).await;
    // The copy counts from its arrival: the sender may give up waiting.
    sink.wait_for(1).await;
    assert!(client.reply().await.starts_with("250 "));
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn a_configured_delay_holds_back_the_answer_to_the_dot() {
    let sink = sink_with(|config| config.delay = Duration::from_millis(60)).await;
    let mut client = Client::greet(&sink).await;
    let start = Instant::now();
    assert!(client.deliver("a", &["bob@x"]).await.starts_with("250 "));
    assert!(start.elapsed() >= Duration::from_millis(60));
}
