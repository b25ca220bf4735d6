//! Whom we trust, and the handshake.
//!
//! Certificates and host names are always verified; there is no setting that turns it off.

use std::sync::Arc;

use posthaste_core::attempt::Cause;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::config::{InvalidSmtpConfig, SmtpConfig, TlsMode};

/// What is needed for a handshake, made once per transport.
pub(super) enum TlsSetup {
    /// TLS is not used.
    Unused,
    /// It can be.
    Ready(TlsConnector, ServerName<'static>),
    /// It cannot be (there are no certificates to trust, for example), which matters only if the
    /// server offers it.
    Unusable(String),
}

impl TlsSetup {
    /// Prepares what this configuration needs.
    pub(super) fn new(config: &SmtpConfig) -> Result<Self, InvalidSmtpConfig> {
        if config.tls == TlsMode::None {
            return Ok(Self::Unused);
        }
        match (prepare(config), config.tls) {
            (Ok((connector, name)), _) => Ok(Self::Ready(connector, name)),
            (Err(text), TlsMode::Opportunistic) => Ok(Self::Unusable(text)),
            (Err(text), _) => Err(InvalidSmtpConfig::TlsSetup(text)),
        }
    }

    /// Shakes hands. After an error the connection is gone: there is no way back to plain text.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        config: &SmtpConfig,
    ) -> Result<TlsStream<TcpStream>, Cause> {
        let (connector, name) = match self {
            Self::Ready(connector, name) => (connector, name.clone()),
            Self::Unusable(text) => return Err(Cause::Tls(text.clone())),
            Self::Unused => return Err(Cause::Tls("TLS is switched off".to_owned())),
        };
        match timeout(config.timeouts.tls, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(Cause::Tls(error.to_string())),
            Err(_) => Err(Cause::Timeout),
        }
    }
}

fn prepare(config: &SmtpConfig) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(config.host.clone())
        .map_err(|_| format!("no certificate can be made out to `{}`", config.host))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let client = if config.root_certificates.is_empty() {
        let verifier =
            rustls_platform_verifier::Verifier::new(provider).map_err(|error| error.to_string())?;
        builder
            .dangerous() // The name of the method; the verifier is the platform's own.
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for certificate in &config.root_certificates {
            roots
                .add(certificate.clone())
                .map_err(|error| format!("a root certificate is invalid: {error}"))?;
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    Ok((TlsConnector::from(Arc::new(client)), name))
}
