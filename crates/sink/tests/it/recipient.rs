//! One test for each behaviour that a recipient can ask for.

use std::time::{Duration, Instant};

use posthaste_sink::behaviours;

use crate::client::{Client, sink, sink_with};

#[tokio::test]
async fn tempfail_is_put_off_at_rcpt() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("tempfail@x").await;
    assert_eq!(reply, "451 4.3.0 Try again later");
    client.expect("RCPT TO:<TempFail+17@x>", "451 4.3.0 ").await;
    client.expect("RCPT TO:<other@x>", "250 2.1.5 ").await;
}

#[tokio::test]
async fn tempfail_data_is_put_off_at_the_dot() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.deliver("a", &["tempfail-data@x"]).await;
    assert!(reply.starts_with("451 4.3.0 "), "{reply}");
    assert_eq!(sink.accepted(), 0);
}

#[tokio::test]
async fn reject_is_refused_at_rcpt() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("reject@x").await;
    assert!(reply.starts_with("550 5.1.1 "), "{reply}");
}

#[tokio::test]
async fn reject_data_is_refused_at_the_dot() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.deliver("a", &["reject-data@x"]).await;
    assert!(reply.starts_with("554 5.6.0 "), "{reply}");
    assert_eq!(sink.copies("a", "reject-data@x"), 0);
}

#[tokio::test]
async fn spam_is_refused_at_the_dot() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.deliver("a", &["spam@x"]).await;
    assert!(reply.starts_with("554 5.7.1 "), "{reply}");
}

#[tokio::test]
async fn a_full_mailbox_is_put_off_at_rcpt() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("full@x").await;
    assert!(reply.starts_with("452 4.2.2 "), "{reply}");
}

#[tokio::test]
async fn greylist_is_put_off_until_its_time_has_passed() {
    let hour = Duration::from_secs(3600);
    let sink = sink_with(|config| config.greylist_after = hour).await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("greylist@x").await;
    assert_eq!(reply, "451 4.7.1 Greylisted, try again in 3600 seconds");
    client.expect("RCPT TO:<greylist@x>", "451 4.7.1 ").await;
}

#[tokio::test]
async fn greylist_is_accepted_when_its_time_has_passed_for_this_sender_and_recipient() {
    let sink = sink_with(|config| config.greylist_after = Duration::ZERO).await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("greylist@x").await;
    assert!(reply.starts_with("451 4.7.1 "), "{reply}");
    client.expect("RCPT TO:<greylist@x>", "250 ").await;
    client.expect("RCPT TO:<greylist@y>", "451 4.7.1 ").await;
    client.expect("RSET", "250 ").await;
    client.expect("MAIL FROM:<other@test>", "250 ").await;
    client.expect("RCPT TO:<greylist@x>", "451 4.7.1 ").await;
}

#[tokio::test]
async fn hang_never_answers_rcpt() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    // The reply to MAIL comes even though it was pipelined with the one that hangs.
    client
        .send("MAIL FROM:<a@x>\r\nRCPT TO:<hang@x>\r\nNOOP\r\n")
        .await;
    assert!(client.reply().await.starts_with("250 2.1.0 "));
    assert!(client.hears_nothing().await);
    client.send("NOOP\r\n").await;
    assert!(client.hears_nothing().await);
}

#[tokio::test]
async fn hang_after_dot_never_answers_but_the_copy_counts() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["hang-after-dot@x"]).await;
    client.send(&crate::client::message("a")).await;
    sink.wait_for(1).await;
    assert_eq!(sink.copies("a", "hang-after-dot@x"), 1);
    assert!(client.hears_nothing().await);
}

#[tokio::test]
async fn drop_closes_the_connection_at_rcpt() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("MAIL FROM:<a@x>", "250 ").await;
    client.send("RCPT TO:<drop@x>\r\n").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn drop_in_data_closes_the_connection_before_the_body_is_complete() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["drop-in-data@x"]).await;
    client.send("Subject: half of it\r\n").await;
    assert!(client.is_closed().await);
    assert_eq!(sink.accepted(), 0);
}

#[tokio::test]
async fn drop_after_dot_closes_the_connection_but_the_copy_counts() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["drop-after-dot@x"]).await;
    client.send(&crate::client::message("a")).await;
    assert!(client.is_closed().await);
    assert_eq!(sink.copies("a", "drop-after-dot@x"), 1);
}

#[tokio::test]
async fn shutdown_says_421_and_closes_even_if_more_was_sent() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let many = "RCPT TO:<other@x>\r\n".repeat(10_000);
    client
        .send(&format!(
            "MAIL FROM:<a@x>\r\nRCPT TO:<shutdown@x>\r\n{many}"
        ))
        .await;
    assert!(client.reply().await.starts_with("250 2.1.0 "));
    assert!(client.reply().await.starts_with("421 4.3.2 "));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn slow_answers_the_dot_after_its_milliseconds() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.envelope(&["slow80@x"]).await;
    let start = Instant::now();
    client.send(&crate::client::message("a")).await;
    assert!(client.reply().await.starts_with("250 "));
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn trickle_accepts_byte_by_byte() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let start = Instant::now();
    let reply = client.name("trickle2@x").await;
    assert_eq!(reply, "250 2.1.5 Recipient ok");
    assert!(start.elapsed() >= Duration::from_millis(2 * 24));
    client.expect("DATA", "354 ").await;
}

#[tokio::test]
async fn garbage_answers_what_is_no_reply() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("MAIL FROM:<a@x>", "250 ").await;
    client.send("RCPT TO:<garbage@x>\r\n").await;
    let line = client.raw_line().await;
    assert!(line.ends_with(b"\r\n"));
    assert!(!line[..3].iter().all(u8::is_ascii_digit), "{line:?}");
    client.expect("NOOP", "250 ").await;
}

#[tokio::test]
async fn longreply_answers_with_a_line_of_ten_megabytes() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    let reply = client.name("longreply@x").await;
    assert!(reply.starts_with("250 "));
    assert_eq!(reply.len(), 10_000_004);
    client.expect("DATA", "354 ").await;
}

#[tokio::test]
async fn flaky_fails_its_share_of_tries_and_the_same_ones_for_the_same_seed() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let sink = sink_with(|config| config.seed = seed).await;
        let mut client = Client::greet(&sink).await;
        let mut replies = String::new();
        for _ in 0..100 {
            let reply = client.deliver("a", &["flaky30@x"]).await;
            assert!(reply.starts_with("250 ") || reply.starts_with("451 4.3.0 "));
            replies.push_str(&reply[..1]);
        }
        let failures = replies.matches('4').count();
        assert!((10..50).contains(&failures), "{failures}");
        runs.push(replies);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn flaky_with_0_and_100_percent_is_certain() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for _ in 0..20 {
        let reply = client.deliver("a", &["flaky0@x"]).await;
        assert!(reply.starts_with("250 "), "{reply}");
        let reply = client.deliver("b", &["flaky100@x"]).await;
        assert!(reply.starts_with("451 "), "{reply}");
    }
}

#[tokio::test]
async fn fail_puts_off_the_first_tries_of_each_message() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for id in ["a", "b"] {
        for expected in ["451 4.3.0 ", "451 4.3.0 ", "250 ", "250 "] {
            let reply = client.deliver(id, &["fail2@x"]).await;
            assert!(reply.starts_with(expected), "{id}: {reply}");
        }
    }
    assert_eq!(sink.copies("a", "fail2@x"), 2);
}

#[tokio::test]
async fn fail_counts_by_address_and_tag_without_a_message_id() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for recipient in ["fail1+a@x", "fail1+b@x"] {
        for expected in ["451 ", "250 "] {
            client.envelope(&[recipient]).await;
            client.expect("\r\nno header\r\n.", expected).await;
        }
    }
}

#[tokio::test]
async fn authfail_is_refused_at_mail_as_the_sender_and_at_rcpt_as_a_recipient() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("MAIL FROM:<authfail@x>", "535 5.7.8 ").await;
    let reply = client.name("authfail@x").await;
    assert!(reply.starts_with("535 5.7.8 "), "{reply}");
}

#[tokio::test]
async fn the_worst_wish_of_several_recipients_wins() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    for (recipients, expected) in [
        (&["bob@x", "slow1@x"][..], "250 "),
        (&["bob@x", "tempfail-data@x"], "451 4.3.0 "),
        (&["tempfail-data@x", "spam@x", "slow1@x"], "554 5.7.1 "),
        (&["reject-data@x", "spam@x"], "554 5.6.0 "),
        (&["fail1@x", "flaky0@x", "bob@x"], "451 4.3.0 "),
    ] {
        let reply = client.deliver("a", recipients).await;
        assert!(reply.starts_with(expected), "{recipients:?}: {reply}");
    }
    client
        .envelope(&["reject-data@x", "drop-after-dot@x"])
        .await;
    client.send(&crate::client::message("b")).await;
    assert!(client.is_closed().await);
    assert_eq!(sink.copies("b", "reject-data@x"), 1);
}

#[test]
fn the_table_describes_every_behaviour_once() {
    let mut patterns: Vec<_> = behaviours().iter().map(|entry| entry.pattern).collect();
    patterns.sort_unstable();
    patterns.dedup();
    assert_eq!(patterns.len(), behaviours().len());
    assert!(
        behaviours()
            .iter()
            .all(|entry| !entry.description.is_empty())
    );
}
