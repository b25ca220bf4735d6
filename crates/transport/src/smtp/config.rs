//! What an SMTP transport is told: where to, how secured, how patient.
//!
//! A password must never show in `Debug` or in an error.

use std::fmt;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// How the connection is secured. Certificates and host names are verified in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Never. Credentials are sent in clear.
    None,
    /// STARTTLS where the server offers it. Once offered there is no way back to plain text.
    Opportunistic,
    /// STARTTLS, or nothing is sent.
    Required,
    /// TLS from the first byte, as on port 465.
    Implicit,
}

/// A user and a password for AUTH.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's password. Not shown by `Debug`.
    pub password: String,
}

impl Credentials {
    /// A user with a password.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &"…")
            .finish()
    }
}

/// How long to wait at each stage. A reply must be there as a whole in this time, however slowly
/// it trickles in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Looking up the host, and then connecting to each of its addresses. Default 10 s.
    pub connect: Duration,
    /// The TLS handshake, and STARTTLS before it. Default 10 s.
    pub tls: Duration,
    /// The greeting. Default 30 s.
    pub banner: Duration,
    /// EHLO. Default 30 s.
    pub hello: Duration,
    /// Each step of AUTH. Default 30 s.
    pub authentication: Duration,
    /// MAIL FROM. Default 60 s.
    pub mail: Duration,
    /// Each RCPT TO. Default 60 s.
    pub recipient: Duration,
    /// DATA. Default 60 s.
    pub data: Duration,
    /// Each 64 KiB of the message. Default 180 s.
    pub body: Duration,
    /// The reply to the final dot. Default 300 s: a server may take its time here, and giving up
    /// early makes an email's fate unknown.
    pub dot: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(10),
            tls: seconds(10),
            banner: seconds(30),
            hello: seconds(30),
            authentication: seconds(30),
            mail: seconds(60),
            recipient: seconds(60),
            data: seconds(60),
            body: seconds(180),
            dot: seconds(300),
        }
    }
}

/// Settings of an SMTP transport.
#[derive(Debug, Clone)]
pub struct SmtpConfig {
    /// Its name in records and metrics. Default `smtp`.
    pub name: String,
    /// The server: a name or an IP address (IPv6 without brackets).
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// How the connection is secured. Default opportunistic.
    pub tls: TlsMode,
    /// Whom to sign in as. Default nobody.
    pub credentials: Option<Credentials>,
    /// What we call ourselves in EHLO. Default our address on the connection, as `[192.0.2.1]`.
    pub client_name: Option<String>,
    /// How many connections may be open at the same time. Default 16.
    pub connections: usize,
    /// How long an unused connection is kept. Default 30 s.
    pub idle_limit: Duration,
    /// How many messages go over one connection before it is replaced. Default 100.
    pub messages_per_connection: u32,
    /// How long to wait at each stage.
    pub timeouts: Timeouts,
    /// If not empty, only these are trusted, instead of the system's certificates.
    pub root_certificates: Vec<CertificateDer<'static>>,
}

/// Why a configuration cannot work. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum InvalidSmtpConfig {
    #[error("the SMTP URL must begin with smtp:// or smtps://")]
    Scheme,
    #[error(
        "the SMTP URL has an `@` after a `/`, `?` or `#`; percent-encode these characters in user and password (%2F, %3F, %23)"
    )]
    UnencodedCredentials,
    #[error("the SMTP URL has no host; write smtp://user:password@mail.example.org:587")]
    NoHost,
    #[error("the host in the SMTP URL is neither a host name in ASCII nor an IP address")]
    UrlHost,
    #[error("the SMTP host `{0}` is neither a host name in ASCII nor an IP address")]
    Host(String),
    #[error("the SMTP URL has an IPv6 address without brackets; write smtp://[::1]:25")]
    Brackets,
    #[error("the port in the SMTP URL is not a number from 1 to 65535")]
    Port,
    #[error("the SMTP URL has a user but no password; write user:password@host")]
    NoPassword,
    #[error("the SMTP URL has a password but no user; write user:password@host")]
    NoUser,
    #[error(
        "the {0} in the SMTP URL is not percent-encoded UTF-8; write % as %25, @ as %40, : as %3A"
    )]
    PercentEncoding(&'static str),
    #[error("the SMTP {0} holds a control character")]
    ControlCharacter(&'static str),
    #[error("the SMTP URL must end after the port; it has a path or a fragment")]
    Path,
    #[error("the SMTP URL has an unknown parameter; the only one is tls")]
    Parameter,
    #[error("tls in the SMTP URL must be none, opportunistic or required")]
    Tls,
    #[error(
        "smtps:// is TLS from the first byte and takes no tls parameter; use smtp:// for STARTTLS"
    )]
    TlsTwice,
    #[error("the SMTP client name `{0}` must be a host name or an address literal in ASCII")]
    ClientName(String),
    #[error("SMTP {0} must be at least 1")]
    Zero(&'static str),
    #[error("the SMTP timeout for {0} must be longer than zero")]
    NoTime(&'static str),
    #[error("the root certificates are neither PEM nor DER: {0}")]
    Certificate(String),
    #[error("TLS cannot be set up: {0}")]
    TlsSetup(String),
}

impl SmtpConfig {
    /// The defaults, for this server.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            name: "smtp".to_owned(),
            host: host.into(),
            port,
            tls: TlsMode::Opportunistic,
            credentials: None,
            client_name: None,
            connections: 16,
            idle_limit: Duration::from_secs(30),
            messages_per_connection: 100,
            timeouts: Timeouts::default(),
            root_certificates: Vec::new(),
        }
    }

    /// Reads `smtp://user:password@host:port?tls=none|opportunistic|required` or
    /// `smtps://user:password@host:port`. The ports may be left out (25 and 465), `tls` is
    /// `opportunistic` then. User and password are percent-encoded. Everything else is default.
    pub fn from_url(url: &str) -> Result<Self, InvalidSmtpConfig> {
        super::url::parse(url)
    }

    /// Trusts only these certificates: one or more as PEM, or one as DER.
    pub fn trust(&mut self, pem_or_der: &[u8]) -> Result<(), InvalidSmtpConfig> {
        let invalid = |text: String| InvalidSmtpConfig::Certificate(text);
        if pem_or_der.trim_ascii_start().starts_with(b"-----BEGIN") {
            for certificate in CertificateDer::pem_slice_iter(pem_or_der) {
                let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
                self.root_certificates.push(certificate);
            }
        } else {
            let certificate = CertificateDer::from(pem_or_der.to_vec());
            rustls::RootCertStore::empty()
                .add(certificate.clone())
                .map_err(|error| invalid(error.to_string()))?;
            self.root_certificates.push(certificate);
        }
        Ok(())
    }

    /// Refuses what cannot work, before anything is sent.
    pub(super) fn validate(&self) -> Result<(), InvalidSmtpConfig> {
        if !is_host(&self.host) {
            return Err(InvalidSmtpConfig::Host(self.host.clone()));
        }
        if let Some(name) = &self.client_name
            && (name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(InvalidSmtpConfig::ClientName(name.clone()));
        }
        if let Some(credentials) = &self.credentials {
            // AUTH PLAIN separates its parts by NUL.
            for (what, text) in [
                ("user", &credentials.user),
                ("password", &credentials.password),
            ] {
                if text.chars().any(char::is_control) {
                    return Err(InvalidSmtpConfig::ControlCharacter(what));
                }
            }
        }
        if self.connections == 0 {
            return Err(InvalidSmtpConfig::Zero("connections"));
        }
        if self.messages_per_connection == 0 {
            return Err(InvalidSmtpConfig::Zero("messages per connection"));
        }
        let timeouts = &self.timeouts;
        for (what, timeout) in [
            ("connect", timeouts.connect),
            ("TLS", timeouts.tls),
            ("the banner", timeouts.banner),
            ("EHLO", timeouts.hello),
            ("AUTH", timeouts.authentication),
            ("MAIL", timeouts.mail),
            ("RCPT", timeouts.recipient),
            ("DATA", timeouts.data),
            ("the body", timeouts.body),
            ("the final dot", timeouts.dot),
        ] {
            if timeout.is_zero() {
                return Err(InvalidSmtpConfig::NoTime(what));
            }
        }
        Ok(())
    }
}

/// A host name in ASCII or an IP address. Underscores are not legal, but found in the names of
/// containers.
pub(super) fn is_host(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
        || (!host.is_empty()
            && host.len() <= 253
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')))
}
