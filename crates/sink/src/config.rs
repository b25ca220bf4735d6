//! What a sink is started with.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`Sink`](crate::Sink). The default is a well-behaved server without
/// TLS or authentication on a free port of the loopback interface.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// Where to listen. Port 0 picks a free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// The name the server gives itself in its greeting. Default `sink.test`.
    pub hostname: String,
    /// Certificate and key. Makes the server offer STARTTLS, or speak TLS from the
    /// first byte with `implicit_tls`. Default none.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Speak TLS from the first byte (as on port 465). Needs `tls`. Default off.
    pub implicit_tls: bool,
    /// The only credentials that AUTH accepts; once set, MAIL needs them. Default none.
    pub credentials: Option<Credentials>,
    /// The extensions that are offered. Default all.
    pub capabilities: Capabilities,
    /// The largest message in bytes, announced with SIZE. Default 25 MiB.
    pub max_size: usize,
    /// The most recipients of one message; one more is answered `452 4.5.3`.
    /// Default 1000.
    pub max_recipients: usize,
    /// How long to wait before answering each final dot. Default zero.
    pub delay: Duration,
    /// Keep every accepted message in memory for [`Sink::messages`](crate::Sink::messages).
    /// Memory then grows with the mail: leave it off under load. Default off.
    pub keep_messages: bool,
    /// After this many accepted messages the next MAIL on the same connection is
    /// answered `421 4.7.0` and the connection closed. Default no limit.
    pub max_messages_per_connection: Option<u32>,
    /// How many connections are served at once; more wait in the listen queue.
    /// Default 4096.
    pub max_connections: usize,
    /// How long `greylist` recipients are put off, from the first try on. The first
    /// try is put off even if this is zero. Default 60 s.
    pub greylist_after: Duration,
    /// Seed for the dice of `flaky<percent>` recipients: the same sequence of tries
    /// meets the same answers. Default 0.
    pub seed: u64,
}

impl Default for SinkConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            hostname: "sink.test".to_owned(),
            tls: None,
            implicit_tls: false,
            credentials: None,
            capabilities: Capabilities::default(),
            max_size: 25 * 1024 * 1024,
            max_recipients: 1000,
            delay: Duration::ZERO,
            keep_messages: false,
            max_messages_per_connection: None,
            max_connections: 4096,
            greylist_after: Duration::from_secs(60),
            seed: 0,
        }
    }
}

impl SinkConfig {
    /// Refuses combinations that cannot work.
    pub(crate) fn validate(&self) -> io::Result<()> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.implicit_tls && self.tls.is_none() {
            return refuse("implicit_tls needs tls");
        }
        if self.max_connections == 0 {
            return refuse("max_connections must be at least 1");
        }
        if self.hostname.is_empty() || !self.hostname.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("hostname must be printable ASCII without spaces");
        }
        Ok(())
    }
}

/// A user and a password for AUTH PLAIN and AUTH LOGIN.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's password. Not shown by `Debug`.
    pub password: String,
}

impl Credentials {
    /// A user with a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Which SMTP extensions the server offers. An extension that is switched off is also
/// refused when a client uses it unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// RFC 2920. When off, a command with another one already behind it is answered
    /// `503 5.5.0`.
    pub pipelining: bool,
    /// RFC 1870. When off, `max_size` is still enforced, but not announced.
    pub size: bool,
    /// RFC 6152.
    pub eight_bit_mime: bool,
    /// RFC 6531.
    pub smtputf8: bool,
    /// RFC 2034. When off, replies carry only the basic code.
    pub enhanced_status_codes: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            pipelining: true,
            size: true,
            eight_bit_mime: true,
            smtputf8: true,
            enhanced_status_codes: true,
        }
    }
}
