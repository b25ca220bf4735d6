//! What `check` tells people.

use std::sync::Arc;

use posthaste_core::port::Transport;
use posthaste_sink::{Credentials as SinkCredentials, Sink, SinkConfig};
use posthaste_transport::{Credentials, SmtpTransport, TlsMode};

use crate::fixture::{AlwaysOpen, config, email, transport};
use crate::scripted::{Server, closed_port};
use crate::tls::{Authority, trusting};

#[tokio::test]
async fn a_working_server_is_described() {
    let authority = Authority::new();
    let sink = Sink::start(SinkConfig {
        tls: Some(Arc::new(authority.server("localhost"))),
        credentials: Some(SinkCredentials::new("ann", "s3cret")),
        max_size: 1000,
        ..SinkConfig::default()
    })
    .await
    .unwrap();
    let mut config = trusting(&authority, TlsMode::Required, sink.addr().port());
    config.credentials = Some(Credentials::new("ann", "s3cret"));
    let text = SmtpTransport::new(config).unwrap().check().await.unwrap();
    for part in ["localhost:", "sink.test", "TLS 1.3", "ann", "1000"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(!text.contains("s3cret"));
    assert_eq!(sink.report().messages, 0);
}

#[tokio::test]
async fn a_check_says_goodbye_and_sends_nothing() {
    let server = Server::start().await;
    let transport = transport(server.port());
    let serve = async {
        let mut peer = server.greet(&[]).await;
        peer.hear("QUIT\r\n").await;
        peer.say("221 bye\r\n").await;
        let (end, rest) = peer.hear_end().await;
        assert!(end.is_ok());
        assert_eq!(rest, "");
    };
    let (result, ()) = tokio::join!(transport.check(), serve);
    let text = result.unwrap();
    assert!(text.contains("not encrypted"), "{text}");
}

#[tokio::test]
async fn a_check_keeps_to_the_number_of_connections() {
    let server = Server::start().await;
    let mut config = config(server.port());
    config.connections = 1;
    let transport = SmtpTransport::new(config).unwrap();
    let serve = async {
        let mut pooled = server.greet(&["PIPELINING"]).await;
        pooled
            .take_message("Subject: hello\r\n\r\nHello.\r\n")
            .await;
        assert!(pooled.hear_end().await.0.is_ok());
        let mut peer = server.greet(&[]).await;
        peer.hear("QUIT\r\n").await;
        peer.say("221 bye\r\n").await;
    };
    let check = async {
        let email = email(&["bob@example.org"]);
        transport.send(&email, &AlwaysOpen).await;
        transport.check().await
    };
    let (result, ()) = tokio::join!(check, serve);
    result.unwrap();
}

#[tokio::test]
async fn a_failed_check_says_what_to_do() {
    let text = transport(closed_port().await).check().await.unwrap_err();
    assert!(text.contains("check host and port"), "{text}");

    let sink = Sink::start(SinkConfig {
        credentials: Some(SinkCredentials::new("ann", "right")),
        ..SinkConfig::default()
    })
    .await
    .unwrap();
    let mut with_user = config(sink.addr().port());
    with_user.credentials = Some(Credentials::new("ann", "wr0ng"));
    let transport = SmtpTransport::new(with_user).unwrap();
    let text = transport.check().await.unwrap_err();
    assert!(text.contains("check user and password"), "{text}");
    assert!(!text.contains("wr0ng"), "{text}");

    let mut required = config(sink.addr().port());
    required.tls = TlsMode::Required;
    required.trust(&Authority::new().root_der).unwrap();
    let transport = SmtpTransport::new(required).unwrap();
    let text = transport.check().await.unwrap_err();
    assert!(text.contains("STARTTLS"), "{text}");
}
