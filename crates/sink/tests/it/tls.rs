//! STARTTLS and TLS from the first byte.

use std::sync::Arc;

use posthaste_sink::{Sink, SinkConfig};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Client, sink_with};

/// A certificate for `localhost` as the server has it and as its clients trust it.
fn certificate() -> (Arc<ServerConfig>, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("is made");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a usable certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("is added");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}

async fn tls_sink(change: impl FnOnce(&mut SinkConfig)) -> (Sink, TlsConnector) {
    let (server, connector) = certificate();
    let sink = sink_with(|config| {
        config.tls = Some(server);
        change(config);
    })
    .await;
    (sink, connector)
}

async fn encrypt(client: Client, connector: &TlsConnector) -> Client<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = connector.connect(name, client.into_stream()).await;
    Client::over(stream.expect("the handshake succeeds"))
}

#[tokio::test]
async fn starttls_encrypts_and_begins_anew() {
    let (sink, connector) = tls_sink(|_| {}).await;
    let mut client = Client::dial(&sink).await;
    assert!(client.hello().await.contains("STARTTLS"));
    client.expect("MAIL FROM:<a@x>", "250 ").await;
    client.expect("STARTTLS", "220 2.0.0 ").await;
    let mut client = encrypt(client, &connector).await;
    client.expect("MAIL FROM:<a@x>", "503 5.5.1 ").await;
    let offered = client.ask("EHLO client.test").await;
    assert!(
        offered.contains("PIPELINING") && !offered.contains("STARTTLS"),
        "{offered}"
    );
    client.expect("STARTTLS", "503 5.5.1 ").await;
    assert!(client.deliver("a", &["bob@x"]).await.starts_with("250 "));
    assert!(sink.messages()[0].tls);
    client.expect("QUIT", "221 ").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn what_follows_starttls_in_clear_is_dropped() {
    let (sink, connector) = tls_sink(|_| {}).await;
    let mut client = Client::greet(&sink).await;
    client
        .send("STARTTLS\r\nEHLO injected\r\nMAIL FROM:<evil@x>\r\n")
        .await;
    assert!(client.reply().await.starts_with("220 2.0.0 "));
    let mut client = encrypt(client, &connector).await;
    // Neither injected command is answered or remembered.
    client
        .expect("MAIL FROM:<a@x>", "503 5.5.1 Say EHLO first")
        .await;
}

#[tokio::test]
async fn implicit_tls_speaks_tls_from_the_first_byte() {
    let (sink, connector) = tls_sink(|config| config.implicit_tls = true).await;
    assert_eq!(sink.url(), format!("smtps://{}", sink.addr()));
    let mut client = encrypt(Client::dial(&sink).await, &connector).await;
    assert!(!client.hello().await.contains("STARTTLS"));
    assert!(client.deliver("a", &["bob@x"]).await.starts_with("250 "));
    assert!(sink.messages()[0].tls);
}

#[tokio::test]
async fn a_failed_handshake_costs_only_its_own_connection() {
    let (sink, _) = tls_sink(|config| config.implicit_tls = true).await;
    let mut plain = Client::dial(&sink).await;
    plain.send("EHLO client.test\r\n").await;
    // The TLS alert is no reply; then the connection is over.
    plain.raw_line().await;
    assert!(plain.is_closed().await);
    assert!(Client::dial(&sink).await.hears_nothing().await);
}
