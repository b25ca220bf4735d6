//! The transport against the sink and its misbehaviour.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_sink::{Capabilities, Credentials as SinkCredentials, Mode, Sink, SinkConfig};
use posthaste_transport::{Credentials, SmtpConfig, SmtpTransport, TlsMode};

use crate::fixture::{AlwaysOpen, config, email, email_with};
use crate::tls::{Authority, trusting};

async fn sink(sink_config: SinkConfig) -> Sink {
    Sink::start(SinkConfig {
        keep_messages: true,
        ..sink_config
    })
    .await
    .unwrap()
}

fn impatient(sink: &Sink) -> SmtpConfig {
    let mut config = config(sink.addr().port());
    let limit = Duration::from_millis(300);
    config.timeouts.recipient = limit;
    config.timeouts.dot = limit;
    config
}

async fn send(transport: &SmtpTransport, recipients: &[&str]) -> Vec<RecipientResult> {
    transport.send(&email(recipients), &AlwaysOpen).await
}

fn failure(results: &[RecipientResult]) -> &Failure {
    match results {
        [RecipientResult::Failed(failure)] => failure,
        other => panic!("one failure was expected: {other:?}"),
    }
}

#[tokio::test]
async fn a_message_arrives_byte_for_byte() {
    for pipelining in [true, false] {
        let sink = sink(SinkConfig {
            capabilities: Capabilities {
                pipelining,
                ..Capabilities::default()
            },
            ..SinkConfig::default()
        })
        .await;
        let transport = SmtpTransport::new(config(sink.addr().port())).unwrap();
        let content = b"Subject: dots\r\n\r\n.\r\n..\r\n.x\r\n\r\n.\r\nbare\n.\nlf \xff\x00\r\n";
        let recipients = ["bob@example.org", "eve@example.org"];
        let results = transport
            .send(&email_with(&recipients, content), &AlwaysOpen)
            .await;
        assert!(
            results
                .iter()
                .all(|result| matches!(result, RecipientResult::Accepted(_))),
            "{results:?}"
        );
        let messages = sink.messages();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].bytes, content);
        assert_eq!(messages[0].from, "ann@example.org");
        assert_eq!(messages[0].recipients, recipients);
    }
}

/// All texts of this length of CR, LF, a dot and a letter.
fn mixtures(length: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..4_usize.pow(length)).map(move |number| {
        let octet = |place| b"\r\n.x"[number >> (2 * place) & 3];
        (0..length).map(octet).collect()
    })
}

/// Our stuffing and the sink's unstuffing, neither of which knows the other. A CR or LF that stands
/// alone is no end of a line to either, and arrives as it was.
#[tokio::test]
async fn every_mixture_of_dots_and_line_ends_arrives_byte_for_byte() {
    let sink = sink(SinkConfig::default()).await;
    let transport = SmtpTransport::new(config(sink.addr().port())).unwrap();
    let mut contents: Vec<Vec<u8>> = (0..=4).flat_map(mixtures).collect();
    // The longer ones in a single message, each at the beginning of a line.
    contents.push(
        mixtures(8).fold(b"Subject: all\r\n".to_vec(), |mut all, text| {
            all.extend_from_slice(b"\r\n");
            all.extend_from_slice(&text);
            all
        }),
    );
    for content in &contents {
        let email = email_with(&["bob@example.org"], content);
        let results = transport.send(&email, &AlwaysOpen).await;
        assert!(matches!(results[0], RecipientResult::Accepted(_)));
    }
    let messages = sink.messages();
    assert_eq!(messages.len(), contents.len());
    for (message, mut content) in messages.into_iter().zip(contents) {
        if !content.ends_with(b"\r\n") {
            content.extend_from_slice(b"\r\n");
        }
        assert!(message.bytes == content, "{}", content.escape_ascii());
    }
}

#[tokio::test]
async fn every_misbehaviour_gets_its_stage_and_its_cause() {
    enum Expect {
        Reply(u16),
        Timeout,
        Disconnected,
        Protocol,
    }
    use Expect::{Disconnected, Protocol, Reply, Timeout};
    let cases = [
        ("tempfail", Stage::Recipient, Reply(451)),
        ("reject", Stage::Recipient, Reply(550)),
        ("full", Stage::Recipient, Reply(452)),
        ("greylist", Stage::Recipient, Reply(451)),
        ("shutdown", Stage::Recipient, Reply(421)),
        ("hang", Stage::Recipient, Timeout),
        ("trickle100", Stage::Recipient, Timeout),
        ("drop", Stage::Recipient, Disconnected),
        ("garbage", Stage::Recipient, Protocol),
        ("longreply", Stage::Recipient, Protocol),
        ("tempfail-data", Stage::FinalDot, Reply(451)),
        ("reject-data", Stage::FinalDot, Reply(554)),
        ("spam", Stage::FinalDot, Reply(554)),
        ("drop-after-dot", Stage::FinalDot, Disconnected),
        ("hang-after-dot", Stage::FinalDot, Timeout),
    ];
    let sink = sink(SinkConfig::default()).await;
    let transport = SmtpTransport::new(impatient(&sink)).unwrap();
    for (name, stage, expected) in cases {
        let results = send(&transport, &[&format!("{name}@example.org")]).await;
        let failure = failure(&results);
        assert_eq!(failure.stage, stage, "{name}: {failure:?}");
        let matches = match (&failure.cause, expected) {
            (Cause::Reply(reply), Reply(code)) => reply.code == code,
            (Cause::Timeout, Timeout)
            | (Cause::Disconnected, Disconnected)
            | (Cause::Protocol(_), Protocol) => true,
            _ => false,
        };
        assert!(matches, "{name}: {failure:?}");
        // And the next one is not affected.
        let results = send(&transport, &["bob@example.org"]).await;
        assert!(
            matches!(results[0], RecipientResult::Accepted(_)),
            "after {name}: {results:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_closes_inside_the_message_has_it_not_or_unknown() {
    let sink = sink(SinkConfig::default()).await;
    let transport = SmtpTransport::new(impatient(&sink)).unwrap();
    for _ in 0..20 {
        let results = send(&transport, &["drop-in-data@example.org"]).await;
        let failure = failure(&results);
        assert_eq!(failure.cause, Cause::Disconnected);
        assert!(matches!(failure.stage, Stage::Body | Stage::FinalDot));
    }
    assert_eq!(sink.accepted(), 0);
}

#[tokio::test]
async fn some_are_accepted_and_some_are_not() {
    let sink = sink(SinkConfig::default()).await;
    let transport = SmtpTransport::new(config(sink.addr().port())).unwrap();
    let recipients = ["a@example.org", "reject@example.org", "b@example.org"];
    let results = send(&transport, &recipients).await;
    assert!(matches!(results[0], RecipientResult::Accepted(_)));
    assert_eq!(failure(&results[1..2]).stage, Stage::Recipient);
    assert!(matches!(results[2], RecipientResult::Accepted(_)));
    assert_eq!(
        sink.messages()[0].recipients,
        ["a@example.org", "b@example.org"]
    );
}

#[tokio::test]
async fn a_server_that_limits_messages_per_connection_is_not_noticed() {
    let sink = sink(SinkConfig {
        max_messages_per_connection: Some(3),
        ..SinkConfig::default()
    })
    .await;
    let transport = SmtpTransport::new(config(sink.addr().port())).unwrap();
    for _ in 0..10 {
        let results = send(&transport, &["bob@example.org"]).await;
        assert!(
            matches!(results[0], RecipientResult::Accepted(_)),
            "{results:?}"
        );
    }
    assert_eq!(sink.report().connections, 4);
}

#[tokio::test]
async fn tls_and_auth_work_together() {
    let authority = Authority::new();
    for (implicit_tls, mode) in [
        (true, TlsMode::Implicit),
        (false, TlsMode::Required),
        (false, TlsMode::Opportunistic),
    ] {
        let sink = sink(SinkConfig {
            tls: Some(Arc::new(authority.server("localhost"))),
            implicit_tls,
            credentials: Some(SinkCredentials::new("ann", "pässword")),
            ..SinkConfig::default()
        })
        .await;
        let mut config = trusting(&authority, mode, sink.addr().port());
        config.credentials = Some(Credentials::new("ann", "pässword"));
        let transport = SmtpTransport::new(config.clone()).unwrap();
        for _ in 0..3 {
            let results = send(&transport, &["bob@example.org"]).await;
            assert!(
                matches!(results[0], RecipientResult::Accepted(_)),
                "{results:?}"
            );
        }
        let message = &sink.messages()[0];
        assert!(message.tls);
        assert_eq!(message.user.as_deref(), Some("ann"));
        assert_eq!(sink.report().connections, 1);

        config.credentials = Some(Credentials::new("ann", "wrong"));
        let transport = SmtpTransport::new(config).unwrap();
        let results = send(&transport, &["bob@example.org"]).await;
        let failure = failure(&results);
        assert_eq!(failure.stage, Stage::Authentication);
        assert_eq!(failure.reply().unwrap().code, 535);
    }
}

#[tokio::test]
async fn a_server_that_closes_every_connection_fails_at_the_banner() {
    let sink = sink(SinkConfig::default()).await;
    sink.set_mode(Mode::RefuseConnections);
    let transport = SmtpTransport::new(config(sink.addr().port())).unwrap();
    let results = send(&transport, &["bob@example.org"]).await;
    let failure = failure(&results);
    assert_eq!(failure.stage, Stage::Banner);
    assert_eq!(failure.cause, Cause::Disconnected);
}

#[tokio::test]
async fn a_server_that_is_restarted_is_found_again() {
    let first = sink(SinkConfig::default()).await;
    let address = first.addr();
    let transport = SmtpTransport::new(config(address.port())).unwrap();
    let results = send(&transport, &["bob@example.org"]).await;
    assert!(matches!(results[0], RecipientResult::Accepted(_)));
    first.stop().await;
    let second = sink(SinkConfig {
        listen: address,
        ..SinkConfig::default()
    })
    .await;
    let results = send(&transport, &["bob@example.org"]).await;
    assert!(
        matches!(results[0], RecipientResult::Accepted(_)),
        "{results:?}"
    );
    assert_eq!(second.accepted(), 1);
}
