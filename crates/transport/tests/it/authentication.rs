//! Signing in.

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_transport::{Credentials, SmtpConfig, SmtpTransport, TlsMode};

use crate::fixture::{OpenGate, accepted, config, email, protocol_broken_at, refused};
use crate::scripted::{Peer, Server};

const MESSAGE: &str = "Subject: hello\r\n\r\nHello.\r\n";

fn with_credentials(port: u16) -> SmtpConfig {
    let mut config = config(port);
    config.credentials = Some(Credentials::new("ann", "s3cret"));
    config
}

async fn outcome(
    extensions: &[&str],
    configure: fn(&mut SmtpConfig),
    script: impl AsyncFnOnce(&mut Peer),
) -> RecipientResult {
    let server = Server::start().await;
    let mut config = with_credentials(server.port());
    configure(&mut config);
    let transport = SmtpTransport::new(config).unwrap();
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let serve = async {
        let mut peer = server.greet(extensions).await;
        script(&mut peer).await;
        peer
    };
    let (mut results, _peer) = tokio::join!(transport.send(&email, &gate), serve);
    results.remove(0)
}

#[tokio::test]
async fn plain_is_preferred() {
    let extensions = ["AUTH LOGIN PLAIN", "PIPELINING"];
    let result = outcome(
        &extensions,
        |_| {},
        async |peer| {
            peer.hear("AUTH PLAIN AGFubgBzM2NyZXQ=\r\n").await;
            peer.say("235 2.7.0 welcome\r\n").await;
            peer.take_message(MESSAGE).await;
        },
    )
    .await;
    assert_eq!(result, accepted("250 2.0.0 taken"));
}

#[tokio::test]
async fn login_is_spoken_where_plain_is_not_offered() {
    let extensions = ["AUTH CRAM-MD5 LOGIN", "PIPELINING"];
    let result = outcome(
        &extensions,
        |_| {},
        async |peer| {
            peer.hear("AUTH LOGIN\r\n").await;
            peer.say("334 VXNlcm5hbWU6\r\n").await;
            peer.hear("YW5u\r\n").await;
            peer.say("334 UGFzc3dvcmQ6\r\n").await;
            peer.hear("czNjcmV0\r\n").await;
            peer.say("235 2.7.0 welcome\r\n").await;
            peer.take_message(MESSAGE).await;
        },
    )
    .await;
    assert_eq!(result, accepted("250 2.0.0 taken"));
}

#[tokio::test]
async fn refused_credentials_are_reported_as_such() {
    for mechanism in ["AUTH PLAIN", "AUTH LOGIN"] {
        let result = outcome(
            &[mechanism],
            |_| {},
            async |peer| {
                peer.hear_line().await;
                peer.say("535 5.7.8 wrong password\r\n").await;
            },
        )
        .await;
        assert_eq!(
            result,
            refused(Stage::Authentication, "535 5.7.8 wrong password")
        );
    }
}

#[tokio::test]
async fn a_reply_out_of_order_in_auth_breaks_the_protocol() {
    let result = outcome(
        &["AUTH PLAIN"],
        |_| {},
        async |peer| {
            peer.hear_line().await;
            peer.say("250 sure\r\n").await;
        },
    )
    .await;
    assert_eq!(protocol_broken_at(&result), Some(Stage::Authentication));
}

#[tokio::test]
async fn credentials_that_no_one_asks_for_are_a_mistake_of_ours() {
    for extensions in [&[][..], &["AUTH CRAM-MD5 XOAUTH2"]] {
        let result = outcome(
            extensions,
            |_| {},
            async |peer| {
                let (_, rest) = peer.hear_end().await;
                assert_eq!(rest, "");
            },
        )
        .await;
        assert!(is_credentials_failure(&result), "{result:?}");
    }
}

#[tokio::test]
async fn a_password_may_be_sent_in_clear_on_this_machine() {
    let extensions = ["AUTH PLAIN", "PIPELINING"];
    let opportunistic: fn(&mut SmtpConfig) = |config| config.tls = TlsMode::Opportunistic;
    let result = outcome(&extensions, opportunistic, async |peer| {
        peer.hear("AUTH PLAIN AGFubgBzM2NyZXQ=\r\n").await;
        peer.say("235 2.7.0 welcome\r\n").await;
        peer.take_message(MESSAGE).await;
    })
    .await;
    assert_eq!(result, accepted("250 2.0.0 taken"));
}

#[tokio::test]
async fn a_password_is_not_sent_in_clear_to_another_machine() {
    // An address of this machine that is not a loopback address stands for another machine.
    let Some(address) = outward_address() else {
        return;
    };
    let Ok(listener) = tokio::net::TcpListener::bind((address, 0)).await else {
        return;
    };
    let mut config = with_credentials(listener.local_addr().unwrap().port());
    config.host = address.to_string();
    config.tls = TlsMode::Opportunistic;
    let transport = SmtpTransport::new(config).unwrap();
    let server = Server::from(listener);
    let serve = async {
        let mut peer = server.greet(&["AUTH PLAIN"]).await;
        let (_, rest) = peer.hear_end().await;
        assert_eq!(rest, "");
    };
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let (results, ()) = tokio::join!(transport.send(&email, &gate), serve);
    assert!(is_credentials_failure(&results[0]), "{results:?}");
}

/// The address from which packets to elsewhere would leave; none are sent.
fn outward_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

fn is_credentials_failure(result: &RecipientResult) -> bool {
    match result {
        RecipientResult::Failed(failure) => {
            let text = failure.to_string();
            assert!(!text.contains("s3cret"));
            failure.stage == Stage::Authentication && matches!(failure.cause, Cause::Credentials(_))
        }
        RecipientResult::Accepted(_) => false,
    }
}
