//! One request and its answer, or how far it got without one.
//!
//! Nothing is sent twice from here, no redirect is followed, and no failure repeats a URL or a
//! secret. What failed before the request can have been written is certain not to have been sent;
//! everything later is not.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, Request, retry};
use serde_json::Value;

use super::config::{HttpConfig, HttpConfigError};

/// So much of an answer is read.
const LONGEST_ANSWER: usize = 64 * 1024;
/// Connections that are not used for so long are closed, before the other side does it and a
/// request is lost.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

/// Makes requests.
pub(super) fn client(config: &HttpConfig) -> Result<Client, HttpConfigError> {
    Client::builder()
        .connect_timeout(config.connect_timeout)
        .timeout(config.request_timeout)
        .pool_max_idle_per_host(config.connections)
        .pool_idle_timeout(IDLE_LIMIT)
        .tcp_nodelay(true)
        .http1_only()
        .retry(retry::never())
        .redirect(Policy::none())
        .dns_resolver(Arc::new(Lookup))
        .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| HttpConfigError::Client(innermost(&error.without_url())))
}

/// What came back.
#[derive(Debug)]
pub(super) struct RawAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
    /// Whether the body was read to its end, or as far as one is read.
    pub(super) is_whole: bool,
}

impl RawAnswer {
    /// 2xx.
    pub(super) const fn is_positive(&self) -> bool {
        self.status / 100 == 2
    }

    /// The body as JSON; nothing if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Makes the request and reads the answer. `Err` if there was none.
pub(super) async fn exchange(client: &Client, request: Request) -> Result<RawAnswer, Failure> {
    let is_secure = request.url().scheme() == "https";
    let answer = client.execute(request).await;
    let mut answer = answer.map_err(|error| failure_of(&error.without_url(), is_secure))?;
    let mut body = Vec::new();
    let is_whole = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break true,
            Err(_) => break false,
        }
        if body.len() >= LONGEST_ANSWER {
            body.truncate(LONGEST_ANSWER);
            break true;
        }
    };
    Ok(RawAnswer {
        status: answer.status().as_u16(),
        headers: std::mem::take(answer.headers_mut()),
        body,
        is_whole,
    })
}

/// Where a request without an answer ended.
fn failure_of(error: &reqwest::Error, is_secure: bool) -> Failure {
    let (stage, cause) = if error.is_builder() {
        (Stage::Body, Cause::Io(innermost(error)))
    } else if error.is_connect() {
        before_writing(error, is_secure)
    } else if error.is_timeout() {
        (Stage::Request, Cause::Timeout)
    } else if find::<io::Error>(error).is_some_and(|error| is_hangup(error.kind()))
        || innermost(error).contains("closed before message completed")
    {
        (Stage::Request, Cause::Disconnected)
    } else {
        (Stage::Request, Cause::Io(innermost(error)))
    };
    Failure::new(stage, cause)
}

fn before_writing(error: &reqwest::Error, is_secure: bool) -> (Stage, Cause) {
    if let Some(LookupFailed(text)) = find(error) {
        return (Stage::Resolve, Cause::LookupFailed(text.clone()));
    }
    if let Some(error) = find::<rustls::Error>(error) {
        return (Stage::Tls, Cause::Tls(error.to_string()));
    }
    if error.is_timeout() {
        return (Stage::Connect, Cause::Timeout);
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => (Stage::Connect, Cause::Refused),
        Some(io::ErrorKind::TimedOut) => (Stage::Connect, Cause::Timeout),
        Some(kind) if is_hangup(kind) => {
            let stage = if is_secure {
                Stage::Tls
            } else {
                Stage::Connect
            };
            (stage, Cause::Disconnected)
        }
        _ => (Stage::Connect, Cause::Io(innermost(error))),
    }
}

fn is_hangup(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// The first cause of this type, also where an I/O error is wrapped around it.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        if let Some(inner) = inner
            && let Some(found) = find(inner)
        {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Only the innermost cause says something.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The system's way to look up a host, with failures that can be told from others.
struct Lookup;

#[derive(Debug)]
struct LookupFailed(String);

impl fmt::Display for LookupFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for LookupFailed {}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            match tokio::net::lookup_host((name.as_str(), 0)).await {
                Ok(addresses) => Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as _),
                Err(error) => Err(LookupFailed(error.to_string()).into()),
            }
        })
    }
}
