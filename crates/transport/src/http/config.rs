//! What an HTTP transport is told: whose API, where, with which secrets, how patient.
//!
//! A secret must never show in `Debug` or in an error, and no error repeats a URL: it may hold one.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Settings of a transport that speaks to a provider's HTTP API.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Its name in records and metrics.
    pub name: String,
    /// Whose API, and who we are there.
    pub provider: ProviderConfig,
    /// How long connecting may take: looking up the host, TCP and TLS together. Default 10 s.
    pub connect_timeout: Duration,
    /// How long one email may take as a whole, connecting included. Default 60 s. Giving up early
    /// makes an email's fate unknown.
    pub request_timeout: Duration,
    /// How many requests may be under way at the same time. Default 16.
    pub connections: usize,
}

impl HttpConfig {
    /// The defaults, for this provider.
    #[must_use]
    pub fn new(name: impl Into<String>, provider: ProviderConfig) -> Self {
        Self {
            name: name.into(),
            provider,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            connections: 16,
        }
    }
}

/// Whose API it is, and who we are there. A `base_url` that is left out is the documented one.
#[derive(Clone)]
pub enum ProviderConfig {
    /// Resend.
    Resend {
        /// The API key, `re_…`.
        api_key: SecretString,
        /// Default `https://api.resend.com`.
        base_url: Option<String>,
    },
    /// SendGrid, v3.
    SendGrid {
        /// The API key, `SG.…`.
        api_key: SecretString,
        /// Default `https://api.sendgrid.com`; `https://api.eu.sendgrid.com` for Europe.
        base_url: Option<String>,
    },
    /// Postmark.
    Postmark {
        /// The token of the server.
        server_token: SecretString,
        /// The message stream. Default `outbound`, as Postmark has it.
        message_stream: Option<String>,
        /// Default `https://api.postmarkapp.com`.
        base_url: Option<String>,
    },
    /// Mailgun.
    Mailgun {
        /// The account's API key, or a sending key of the domain.
        api_key: SecretString,
        /// The sending domain.
        domain: String,
        /// Default `https://api.mailgun.net`; `https://api.eu.mailgun.net` for Europe.
        base_url: Option<String>,
    },
    /// Amazon SES, v2.
    Ses {
        /// The access key's id.
        access_key_id: String,
        /// The access key's secret.
        secret_access_key: SecretString,
        /// The session's token, for temporary credentials.
        session_token: Option<SecretString>,
        /// The region, such as `eu-central-1`.
        region: String,
        /// The configuration set, which decides what is reported where.
        configuration_set: Option<String>,
        /// Default `https://email.<region>.amazonaws.com`.
        endpoint: Option<String>,
    },
    /// Any other API that takes JSON.
    Http {
        /// Where the request goes. Secrets belong into `headers`.
        url: String,
        /// The method. Default `POST`.
        method: Option<String>,
        /// Headers of the request: who we are. Their values are not shown.
        headers: Vec<(String, SecretString)>,
        /// The body: a template that makes JSON, in which every value stands as a JSON literal,
        /// as in `{"to": {{ to[0].address }}, "subject": {{ subject }}}`.
        body_template: String,
        /// Where an answer has the provider's id of the message, as a JSON pointer: `/id`.
        id_pointer: Option<String>,
        /// Where an answer has the name of an error, as a JSON pointer: `/error/code`.
        error_pointer: Option<String>,
        /// The header in which our key goes along.
        idempotency_header: Option<String>,
        /// Whether the API sends nothing twice that carries the same key.
        honours_key: bool,
    },
}

impl ProviderConfig {
    /// Everything in it that must not be seen.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Resend { api_key, .. }
            | Self::SendGrid { api_key, .. }
            | Self::Mailgun { api_key, .. } => vec![api_key.clone()],
            Self::Postmark { server_token, .. } => vec![server_token.clone()],
            Self::Ses {
                secret_access_key,
                session_token,
                ..
            } => std::iter::once(secret_access_key)
                .chain(session_token)
                .cloned()
                .collect(),
            Self::Http { headers, .. } => headers.iter().map(|(_, value)| value.clone()).collect(),
        }
    }
}

/// The place without what may be secret: path, query and user.
struct Place<'a>(&'a str);

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Url::parse(self.0) {
            Ok(url) => write!(f, "{}", url.origin().ascii_serialization()),
            Err(_) => f.write_str("…"),
        }
    }
}

fn place(url: Option<&String>) -> Option<Place<'_>> {
    url.map(|url| Place(url))
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resend { base_url, .. } => f
                .debug_struct("Resend")
                .field("base_url", &place(base_url.as_ref()))
                .finish_non_exhaustive(),
            Self::SendGrid { base_url, .. } => f
                .debug_struct("SendGrid")
                .field("base_url", &place(base_url.as_ref()))
                .finish_non_exhaustive(),
            Self::Postmark {
                message_stream,
                base_url,
                ..
            } => f
                .debug_struct("Postmark")
                .field("message_stream", message_stream)
                .field("base_url", &place(base_url.as_ref()))
                .finish_non_exhaustive(),
            Self::Mailgun {
                domain, base_url, ..
            } => f
                .debug_struct("Mailgun")
                .field("domain", domain)
                .field("base_url", &place(base_url.as_ref()))
                .finish_non_exhaustive(),
            Self::Ses {
                access_key_id,
                region,
                configuration_set,
                endpoint,
                ..
            } => f
                .debug_struct("Ses")
                .field("access_key_id", access_key_id)
                .field("region", region)
                .field("configuration_set", configuration_set)
                .field("endpoint", &place(endpoint.as_ref()))
                .finish_non_exhaustive(),
            Self::Http {
                url,
                method,
                headers,
                id_pointer,
                error_pointer,
                idempotency_header,
                honours_key,
                ..
            } => {
                let names: Vec<&String> = headers.iter().map(|(name, _)| name).collect();
                f.debug_struct("Http")
                    .field("url", &Place(url))
                    .field("method", method)
                    .field("headers", &names)
                    .field("id_pointer", id_pointer)
                    .field("error_pointer", error_pointer)
                    .field("idempotency_header", idempotency_header)
                    .field("honours_key", honours_key)
                    .finish_non_exhaustive()
            }
        }
    }
}

/// Why a configuration cannot work. Holds neither a secret nor a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum HttpConfigError {
    #[error("{0} must be a URL such as https://api.example.org, without user and password")]
    Url(&'static str),
    #[error("{0} must begin with https:// (http:// only for this machine)")]
    NotSecure(&'static str),
    #[error("{0} must not be empty")]
    Empty(&'static str),
    #[error("{0} has a character that no HTTP header may have; check for a line end at its end")]
    Secret(&'static str),
    #[error("domain must be the sending domain alone, such as mg.example.org")]
    Domain,
    #[error("region must be a region's code, such as eu-central-1")]
    Region,
    #[error("method must be POST, PUT or PATCH")]
    Method,
    #[error("headers has `{0}`, which is no name of a header")]
    HeaderName(String),
    #[error("headers has `{0}`, which Posthaste sets itself; leave it out")]
    OwnHeader(String),
    #[error("headers has a value for `{0}` that no HTTP header may have")]
    HeaderValue(String),
    #[error("idempotency_header must be the name of a header, such as Idempotency-Key")]
    IdempotencyHeader,
    #[error("honours_key needs idempotency_header: without it no key goes along")]
    NoKeyToHonour,
    #[error("{0} must be a JSON pointer, such as /id or /error/code")]
    Pointer(&'static str),
    #[error("body_template cannot be used: {0}")]
    Template(String),
    #[error("connections must be at least 1")]
    NoConnections,
    #[error("{0} must be longer than zero")]
    NoTime(&'static str),
    #[error(
        "connect_timeout must be shorter than request_timeout, or nobody knows whether a request was sent"
    )]
    ConnectTimeout,
    #[error("requests cannot be made: {0}")]
    Client(String),
}

impl HttpConfig {
    /// Refuses what cannot work, before anything is sent.
    pub(super) fn validate(&self) -> Result<(), HttpConfigError> {
        if self.name.is_empty() {
            return Err(HttpConfigError::Empty("name"));
        }
        if self.connections == 0 {
            return Err(HttpConfigError::NoConnections);
        }
        for (what, time) in [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
        ] {
            if time.is_zero() {
                return Err(HttpConfigError::NoTime(what));
            }
        }
        if self.connect_timeout >= self.request_timeout {
            return Err(HttpConfigError::ConnectTimeout);
        }
        Ok(())
    }
}

/// A URL that may be used: secure, or on this machine.
pub(super) fn url(field: &'static str, text: &str) -> Result<Url, HttpConfigError> {
    let url = Url::parse(text.trim()).map_err(|_| HttpConfigError::Url(field))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    let Some(host) = url.host_str().filter(|_| !has_user) else {
        return Err(HttpConfigError::Url(field));
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(HttpConfigError::NotSecure(field)),
    }
}

/// The URL of a path below a base.
pub(super) fn below(
    field: &'static str,
    base: Option<&str>,
    default: &str,
    path: &str,
) -> Result<Url, HttpConfigError> {
    let mut url = url(field, base.unwrap_or(default))?;
    let whole = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&whole);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// A header's value that is made of a secret.
pub(super) fn secret_header(
    field: &'static str,
    prefix: &str,
    secret: &SecretString,
) -> Result<HeaderValue, HttpConfigError> {
    let secret = secret.expose_secret();
    if secret.is_empty() {
        return Err(HttpConfigError::Empty(field));
    }
    let value = HeaderValue::from_str(&format!("{prefix}{secret}"));
    let mut value = value.map_err(|_| HttpConfigError::Secret(field))?;
    value.set_sensitive(true);
    Ok(value)
}
