//! The commands, their order, their limits, and what EHLO offers.

use posthaste_sink::Capabilities;

use crate::client::{Client, message, sink, sink_with};

const NOTHING_OFFERED: Capabilities = Capabilities {
    pipelining: false,
    size: false,
    eight_bit_mime: false,
    smtputf8: false,
    enhanced_status_codes: false,
};

#[tokio::test]
async fn ehlo_offers_what_is_switched_on() {
    let sink = sink().await;
    let mut client = Client::dial(&sink).await;
    assert_eq!(
        client.hello().await,
        "250-sink.test\r\n250-PIPELINING\r\n250-SIZE 26214400\r\n250-8BITMIME\r\n\
         250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES"
    );
    assert_eq!(client.ask("HELO client.test").await, "250 sink.test");
}

#[tokio::test]
async fn what_is_switched_off_is_neither_offered_nor_accepted() {
    let sink = sink_with(|config| config.capabilities = NOTHING_OFFERED).await;
    let mut client = Client::dial(&sink).await;
    assert_eq!(client.hello().await, "250 sink.test");
    for parameter in ["SIZE=1", "BODY=8BITMIME", "SMTPUTF8", "RET=HDRS"] {
        let reply = client.ask(&format!("MAIL FROM:<a@x> {parameter}")).await;
        assert_eq!(reply, "555 Parameter not recognized");
    }
    assert_eq!(client.name("reject@x").await, "550 No such user here");
}

#[tokio::test]
async fn a_pipelined_command_is_refused_where_pipelining_is_not_offered() {
    let sink = sink_with(|config| config.capabilities.pipelining = false).await;
    let mut client = Client::greet(&sink).await;
    client.send("NOOP\r\nNOOP\r\n").await;
    assert!(client.reply().await.starts_with("503 5.5.0 "));
    assert!(client.reply().await.starts_with("250 "));
    assert!(client.deliver("a", &["bob@x"]).await.starts_with("250 "));
}

#[tokio::test]
async fn pipelined_transactions_are_answered_in_order() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let envelope = "MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nRCPT TO:<reject@x>\r\nDATA\r\n";
    client.send(envelope).await;
    for expected in ["250 2.1.0", "250 2.1.5", "550 5.1.1", "354 "] {
        assert!(client.reply().await.starts_with(expected));
    }
    // The next transaction follows the dot in the same packet.
    client.send(&format!("{}{envelope}", message("a"))).await;
    for expected in ["250 2.0.0", "250 2.1.0", "250 2.1.5", "550 5.1.1", "354 "] {
        assert!(client.reply().await.starts_with(expected));
    }
    client.send(&format!("{}QUIT\r\n", message("b"))).await;
    for expected in ["250 2.0.0", "221 2.0.0"] {
        assert!(client.reply().await.starts_with(expected));
    }
    assert!(client.is_closed().await);
    assert_eq!((sink.copies("a", "b@x"), sink.copies("b", "b@x")), (1, 1));
    assert_eq!(sink.copies("a", "reject@x"), 0);
}

#[tokio::test]
async fn data_is_refused_when_no_recipient_was_accepted() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client
        .send("MAIL FROM:<a@x>\r\nRCPT TO:<reject@x>\r\nDATA\r\n")
        .await;
    for expected in ["250 ", "550 ", "554 5.5.1 "] {
        assert!(client.reply().await.starts_with(expected));
    }
}

#[tokio::test]
async fn commands_out_of_order_are_refused() {
    let sink = sink().await;
    let mut client = Client::dial(&sink).await;
    assert!(client.reply().await.starts_with("220 sink.test ESMTP"));
    client.expect("MAIL FROM:<a@x>", "503 5.5.1 ").await;
    client.expect("EHLO client.test", "250").await;
    client.expect("RCPT TO:<b@x>", "503 5.5.1 ").await;
    client.expect("DATA", "503 5.5.1 ").await;
    client.expect("MAIL FROM:<a@x>", "250 2.1.0 ").await;
    client.expect("MAIL FROM:<a@x>", "503 5.5.1 ").await;
    client.expect("RSET", "250 2.0.0 ").await;
    client.expect("RCPT TO:<b@x>", "503 5.5.1 ").await;
}

#[tokio::test]
async fn ehlo_forgets_the_transaction() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("MAIL FROM:<a@x>", "250 ").await;
    client.expect("EHLO client.test", "250").await;
    client.expect("MAIL FROM:<a@x>", "250 ").await;
}

#[tokio::test]
async fn the_small_commands_answer() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("noop whatever", "250 2.0.0 ").await;
    client.expect("VRFY bob", "252 2.1.5 ").await;
    client.expect("HELP", "214 2.0.0 ").await;
    client.expect("EXPN list", "502 5.5.1 ").await;
    client.expect("STARTTLS", "502 5.5.1 ").await;
    client.expect("AUTH PLAIN AGEAYg==", "502 5.5.1 ").await;
    client.expect("BDAT 3", "500 5.5.1 ").await;
    client.expect("DATA now", "501 5.5.4 ").await;
    client.expect("EHLO", "501 5.5.4 ").await;
    client.expect("", "500 ").await;
    client.expect("QUIT", "221 2.0.0 ").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn mail_takes_its_parameters() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let all = "MAIL FROM:<ä@x> size=10 BODY=8BITMIME SMTPUTF8";
    client.expect(all, "250 ").await;
    client.expect("RCPT TO:<ö@x>", "250 ").await;
    client
        .expect("RCPT TO:<o@x> NOTIFY=NEVER", "555 5.5.4 ")
        .await;
    client.expect("RSET", "250 ").await;
    client
        .expect("MAIL FROM:<a@x> BODY=9BIT", "501 5.5.4 ")
        .await;
    client.expect("MAIL FROM:<ä@x>", "553 5.6.7 ").await;
    client.expect("MAIL FROM:<>", "250 ").await;
    client.expect("RCPT TO:<ö@x>", "553 5.6.7 ").await;
    client.expect("RCPT TO:<>", "501 5.1.3 ").await;
}

#[tokio::test]
async fn a_command_line_without_end_is_skipped_and_refused() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let long = "x".repeat(100_000);
    client.expect(&format!("NOOP {long}"), "500 5.5.2 ").await;
    let almost = "x".repeat(12_288 - 7);
    client.expect(&format!("NOOP {almost}"), "250 ").await;
    client
        .expect(&format!("NOOP {almost}x"), "500 5.5.2 ")
        .await;
    client.expect("NOOP", "250 ").await;
}

#[tokio::test]
async fn a_command_that_ends_with_lf_alone_is_refused() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.send("RSET\n").await;
    assert!(client.reply().await.starts_with("500 5.5.2 "));
}

#[tokio::test]
async fn a_command_may_come_in_pieces() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for piece in ["NO", "OP", "\r", "\nNOOP\r", "\n"] {
        client.send(piece).await;
        tokio::task::yield_now().await;
    }
    assert!(client.reply().await.starts_with("250 "));
    assert!(client.reply().await.starts_with("250 "));
}

#[tokio::test]
async fn one_recipient_too_many_is_put_off() {
    let sink = sink_with(|config| config.max_recipients = 2).await;
    let mut client = Client::greet(&sink).await;
    client.name("a@x").await;
    client.expect("RCPT TO:<b@x>", "250 ").await;
    client.expect("RCPT TO:<c@x>", "452 4.5.3 ").await;
}

#[tokio::test]
async fn a_connection_that_had_its_messages_is_told_to_come_back() {
    let sink = sink_with(|config| config.max_messages_per_connection = Some(2)).await;
    let mut client = Client::greet(&sink).await;
    for id in ["a", "b"] {
        assert!(client.deliver(id, &["bob@x"]).await.starts_with("250 "));
    }
    client.expect("MAIL FROM:<a@x>", "421 4.7.0 ").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn more_connections_than_allowed_wait_their_turn() {
    let sink = sink_with(|config| config.max_connections = 1).await;
    let first = Client::greet(&sink).await;
    let mut second = Client::dial(&sink).await;
    assert!(second.hears_nothing().await);
    drop(first);
    assert!(second.reply().await.starts_with("220 "));
}
