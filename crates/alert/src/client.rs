//! One request to a channel.
//!
//! Whatever goes wrong, nobody waits for long, no redirect is followed, and no error repeats the
//! URL: it may be all the secret there is.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

use crate::text::shortened;

/// How long to wait for a connection, and for the whole answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of what a channel answers, so much is repeated.
const MOST_ANSWER: usize = 200;

/// Why a channel cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum InvalidChannel {
    /// The URL cannot be used. It is not repeated: it may be secret.
    #[error("must be a URL that begins with https:// (http:// only for this machine)")]
    Url,
    /// The routing key has another form.
    #[error(
        "must be the integration key of an Events API v2 integration in PagerDuty, 32 characters long"
    )]
    RoutingKey,
    /// The secret has another form.
    #[error(
        "must be whsec_ followed by 24 to 64 bytes in base64; make one with: echo whsec_$(openssl rand -base64 32)"
    )]
    Secret,
    /// No requests can be made at all.
    #[error("cannot make requests: {0}")]
    Client(String),
}

/// Sends to one URL.
pub(crate) struct Poster {
    client: Client,
    url: Url,
}

impl Poster {
    pub(crate) fn new(url: &str) -> Result<Self, InvalidChannel> {
        let url = Url::parse(url).map_err(|_| InvalidChannel::Url)?;
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if !(url.scheme() == "https" || url.scheme() == "http" && is_here) {
            return Err(InvalidChannel::Url);
        }
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| InvalidChannel::Client(error.without_url().to_string()))?;
        Ok(Self { client, url })
    }

    /// Posts JSON. Anything but a good answer is an error; `advice` says what a status means.
    pub(crate) async fn post(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
        advice: impl FnOnce(StatusCode) -> &'static str,
    ) -> Result<(), String> {
        let answer = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .headers(headers)
            .body(body)
            .send()
            .await
            .map_err(unreachable)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let said = beginning_of(answer).await;
        let said = if said.is_empty() {
            said
        } else {
            format!(" ({said})")
        };
        Err(format!("it answered {status}{said}: {}", advice(status)))
    }
}

/// What every channel means by a status.
pub(crate) fn usual_advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "it asks for a pause; this is tried again by itself",
        status if status.is_redirection() => {
            "redirects are not followed; set the URL that it points to"
        }
        status if status.is_server_error() => "it is in trouble; this is tried again by itself",
        _ => "check the URL",
    }
}

/// Nobody answered. Only the innermost cause says something.
fn unreachable(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return format!(
            "no answer within {} s; this is tried again by itself",
            TIMEOUT.as_secs()
        );
    }
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("cannot reach it: {cause}; check the URL and the network")
}

async fn beginning_of(mut answer: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MOST_ANSWER
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    shortened(&words.join(" "), MOST_ANSWER)
}
