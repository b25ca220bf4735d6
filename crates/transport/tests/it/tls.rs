//! TLS: verified, never stripped, never mixed with plain text.

use std::io;
use std::sync::Arc;

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport;
use posthaste_transport::{SmtpConfig, SmtpTransport, TlsMode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;

use crate::fixture::{
    OpenGate, accepted, config, email, protocol_broken_at, refused, tls_failed_at,
};
use crate::scripted::{Peer, Server};

const MESSAGE: &str = "Subject: hello\r\n\r\nHello.\r\n";

/// An authority, and a server with a certificate for `name` that it signed.
pub(crate) struct Authority {
    pub(crate) root_pem: String,
    pub(crate) root_der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        Self {
            root_pem: root.pem(),
            root_der: root.der().to_vec(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn server(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap()
    }
}

/// Trusts the authority, and asks for `localhost`.
pub(crate) fn trusting(authority: &Authority, mode: TlsMode, port: u16) -> SmtpConfig {
    let mut config = config(port);
    config.host = "localhost".to_owned();
    config.tls = mode;
    config.trust(authority.root_pem.as_bytes()).unwrap();
    config
}

/// Everything up to the handshake of STARTTLS.
async fn starttls(server: &Server) -> Peer {
    let mut peer = server.greet(&["STARTTLS", "PIPELINING"]).await;
    peer.hear("STARTTLS\r\n").await;
    peer.say("220 go ahead\r\n").await;
    peer
}

async fn send(
    config: SmtpConfig,
    serve: impl Future<Output = io::Result<()>>,
) -> (RecipientResult, io::Result<()>) {
    let transport = SmtpTransport::new(config).unwrap();
    let email = email(&["bob@example.org"]);
    let gate = OpenGate::default();
    let (mut results, served) = tokio::join!(transport.send(&email, &gate), serve);
    (results.remove(0), served)
}

#[tokio::test]
async fn starttls_encrypts_what_follows_and_asks_again_what_is_offered() {
    let authority = Authority::new();
    for mode in [TlsMode::Opportunistic, TlsMode::Required] {
        let server = Server::start().await;
        let config = trusting(&authority, mode, server.port());
        let serve = async {
            let mut peer = starttls(&server)
                .await
                .secure(authority.server("localhost"))
                .await?;
            // PIPELINING was said in clear, which counts for nothing.
            peer.hear("EHLO client.test\r\n").await;
            peer.offer(&[]).await;
            peer.hear("MAIL FROM:<ann@example.org>\r\n").await;
            peer.hear_nothing().await;
            peer.say("250 ok\r\n").await;
            peer.hear("RCPT TO:<bob@example.org>\r\n").await;
            peer.say("250 ok\r\n").await;
            peer.hear("DATA\r\n").await;
            peer.say("354 go on\r\n").await;
            peer.hear(MESSAGE).await;
            peer.hear(".\r\n").await;
            peer.say("250 2.0.0 taken\r\n").await;
            Ok(())
        };
        let (result, served) = send(config, serve).await;
        served.unwrap();
        assert_eq!(result, accepted("250 2.0.0 taken"));
    }
}

#[tokio::test]
async fn implicit_tls_begins_with_the_handshake() {
    let authority = Authority::new();
    let server = Server::start().await;
    let mut config = trusting(&authority, TlsMode::Implicit, server.port());
    // As DER this time.
    config.root_certificates.clear();
    config.trust(&authority.root_der).unwrap();
    let serve = async {
        let peer = server.accept().await;
        let mut peer = peer.secure(authority.server("localhost")).await?;
        peer.say("220 scripted.test\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        peer.offer(&["PIPELINING", "STARTTLS"]).await;
        peer.take_message(MESSAGE).await;
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(result, accepted("250 2.0.0 taken"));
}

#[tokio::test]
async fn a_large_message_goes_through_tls_byte_for_byte() {
    let authority = Authority::new();
    let server = Server::start().await;
    let config = trusting(&authority, TlsMode::Implicit, server.port());
    let transport = SmtpTransport::new(config).unwrap();
    let content = "..a line with two dots, and more\r\n".repeat(50_000);
    let stuffed = "...a line with two dots, and more\r\n".repeat(50_000);
    let email = crate::fixture::email_with(&["bob@example.org"], content.as_bytes());
    let gate = OpenGate::default();
    let serve = async {
        let peer = server.accept().await;
        let mut peer = peer.secure(authority.server("localhost")).await.unwrap();
        peer.say("220 scripted.test\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        peer.offer(&["PIPELINING"]).await;
        peer.take_message(&stuffed).await;
        peer
    };
    let (results, _peer) = tokio::join!(transport.send(&email, &gate), serve);
    assert_eq!(results, [accepted("250 2.0.0 taken")]);
}

#[tokio::test]
async fn a_stripped_starttls_fails_where_tls_is_required() {
    let server = Server::start().await;
    let config = trusting(&Authority::new(), TlsMode::Required, server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        let (_, rest) = peer.hear_end().await;
        assert_eq!(rest, "");
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(tls_failed_at(&result), Some(Stage::Tls));
}

#[tokio::test]
async fn plain_text_injected_after_starttls_is_refused() {
    let server = Server::start().await;
    let config = trusting(&Authority::new(), TlsMode::Required, server.port());
    let serve = async {
        let mut peer = server.greet(&["STARTTLS"]).await;
        peer.hear("STARTTLS\r\n").await;
        peer.say("220 go ahead\r\n250-evil.test\r\n250 AUTH PLAIN\r\n")
            .await;
        let (_, rest) = peer.hear_end().await;
        assert_eq!(rest, "");
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(protocol_broken_at(&result), Some(Stage::Tls));
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    for mode in [TlsMode::Opportunistic, TlsMode::Required] {
        let server = Server::start().await;
        let config = trusting(&authority, mode, server.port());
        let serve = async {
            let peer = starttls(&server).await;
            peer.secure(authority.server("elsewhere.test")).await?;
            Ok(())
        };
        let (result, served) = send(config, serve).await;
        assert!(served.is_err());
        assert_eq!(tls_failed_at(&result), Some(Stage::Tls), "{result:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = Server::start().await;
    let config = trusting(&Authority::new(), TlsMode::Required, server.port());
    let serve = async {
        let peer = starttls(&server).await;
        peer.secure(Authority::new().server("localhost")).await?;
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    assert!(served.is_err());
    assert_eq!(tls_failed_at(&result), Some(Stage::Tls), "{result:?}");
}

#[tokio::test]
async fn a_failed_handshake_is_not_followed_by_plain_text() {
    let server = Server::start().await;
    let config = trusting(&Authority::new(), TlsMode::Opportunistic, server.port());
    let serve = async {
        let mut peer = starttls(&server).await;
        peer.say("this is not a handshake, not at all\r\n").await;
        let (_, rest) = peer.hear_end().await;
        assert!(!rest.contains("MAIL"));
        assert!(!rest.contains("EHLO"));
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(tls_failed_at(&result), Some(Stage::Tls), "{result:?}");
}

#[tokio::test]
async fn a_refused_starttls_is_not_followed_by_plain_text() {
    for mode in [TlsMode::Opportunistic, TlsMode::Required] {
        let server = Server::start().await;
        let config = trusting(&Authority::new(), mode, server.port());
        let serve = async {
            let mut peer = server.greet(&["STARTTLS"]).await;
            peer.hear("STARTTLS\r\n").await;
            peer.say("454 4.7.0 not now\r\n").await;
            let (_, rest) = peer.hear_end().await;
            assert_eq!(rest, "");
            Ok(())
        };
        let (result, served) = send(config, serve).await;
        served.unwrap();
        assert_eq!(result, refused(Stage::Tls, "454 4.7.0 not now"));
    }
}

#[tokio::test]
async fn opportunistic_tls_goes_on_in_clear_where_none_is_offered() {
    let server = Server::start().await;
    let config = trusting(&Authority::new(), TlsMode::Opportunistic, server.port());
    let serve = async {
        let mut peer = server.greet(&["PIPELINING"]).await;
        peer.take_message(MESSAGE).await;
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(result, accepted("250 2.0.0 taken"));
}

#[tokio::test]
async fn a_connection_cut_inside_tls_is_a_hang_up() {
    let authority = Authority::new();
    let server = Server::start().await;
    let config = trusting(&authority, TlsMode::Implicit, server.port());
    let serve = async {
        let peer = server.accept().await;
        let mut peer = peer.secure(authority.server("localhost")).await?;
        peer.say("220 scripted.test\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        // Dropped without the farewell that TLS asks for.
        Ok(())
    };
    let (result, served) = send(config, serve).await;
    served.unwrap();
    assert_eq!(
        result,
        crate::fixture::failed(Stage::Hello, Cause::Disconnected)
    );
}

#[test]
fn what_is_no_certificate_is_not_trusted() {
    let mut config = config(25);
    assert!(config.trust(b"hello").is_err());
    assert!(
        config
            .trust(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n")
            .is_err()
    );
}
