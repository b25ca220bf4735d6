//! Says in words what a try to connect found, and what to do if it failed.

use posthaste_core::attempt::{Cause, Failure, Stage};

use super::config::{SmtpConfig, TlsMode};
use super::connection::Connection;

/// What the server is and how we are connected.
pub(super) fn describe(connection: &Connection, config: &SmtpConfig) -> String {
    let security = connection.tls_version().unwrap_or("not encrypted");
    let user = match &config.credentials {
        Some(credentials) => format!(", signed in as {}", credentials.user),
        None => String::new(),
    };
    let size = match connection.extensions.size_limit {
        Some(limit) => format!(", messages up to {limit} octets"),
        None => String::new(),
    };
    let greeting = &connection.greeting;
    format!("{}: {greeting} ({security}{user}{size})", server(config))
}

/// What failed, and what to do about it.
pub(super) fn advise(failure: &Failure, config: &SmtpConfig) -> String {
    let advice = match (&failure.cause, failure.stage) {
        (Cause::LookupFailed(_), _) => "check the host's name and this machine's DNS",
        (Cause::Refused, _) => "check host and port, and that the server runs",
        (Cause::Timeout | Cause::Io(_), Stage::Resolve | Stage::Connect) => {
            "check host and port; many networks block port 25, try 587 or 465"
        }
        (Cause::Timeout, Stage::Tls | Stage::Banner) => {
            "check port and TLS: smtps:// is for ports that begin with TLS (465), smtp:// for the \
             others (25, 587)"
        }
        (Cause::Protocol(_) | Cause::Disconnected, Stage::Banner) => {
            "this may not be an SMTP server, or one that begins with TLS (use smtps://)"
        }
        (Cause::Tls(_), _) if config.tls == TlsMode::Implicit => {
            "check that the certificate is valid for this host, and that the port begins with TLS \
             (else use smtp://)"
        }
        (Cause::Tls(_), _) => {
            "check that the server offers STARTTLS and that its certificate is valid for this \
             host; tls=none switches TLS off"
        }
        (Cause::Reply(_), Stage::Authentication) => "check user and password",
        (Cause::Reply(_), Stage::Banner | Stage::Hello) => {
            "the server does not want to talk to this machine; check its access rules"
        }
        _ => return format!("{}: {failure}", server(config)),
    };
    format!("{}: {failure}; {advice}", server(config))
}

fn server(config: &SmtpConfig) -> String {
    if config.host.contains(':') {
        format!("[{}]:{}", config.host, config.port)
    } else {
        format!("{}:{}", config.host, config.port)
    }
}
