//! Amazon SES v2: `POST /v2/email/outbound-emails`, our message as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::signature::{Credentials, Signer};
use super::{Api, OUR_ID, Probe, Reading, accepted, get, not_built, put, refused, text_at};
use crate::http::config::{HttpConfigError, below, secret_header};
use crate::http::exchange::RawAnswer;
use crate::http::mail::{Addressing, Group, Mail};
use crate::http::person::Person;

pub(super) struct Ses {
    send: Url,
    account: Url,
    credentials: Credentials,
    region: String,
    configuration_set: Option<String>,
}

impl Ses {
    pub(super) fn new(
        credentials: Credentials,
        region: &str,
        configuration_set: Option<&str>,
        endpoint: Option<&str>,
    ) -> Result<Self, HttpConfigError> {
        let is_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if region.is_empty() || !region.chars().all(is_code) {
            return Err(HttpConfigError::Region);
        }
        if credentials.access_key_id.is_empty() {
            return Err(HttpConfigError::Empty("access_key_id"));
        }
        if HeaderValue::from_str(&credentials.access_key_id).is_err() {
            return Err(HttpConfigError::Secret("access_key_id"));
        }
        if credentials.secret_access_key.expose_secret().is_empty() {
            return Err(HttpConfigError::Empty("secret_access_key"));
        }
        if let Some(token) = &credentials.session_token {
            secret_header("session_token", "", token)?;
        }
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        let default = format!("https://email.{region}.amazonaws.com{china}");
        let at = |path| below("endpoint", endpoint, &default, path);
        Ok(Self {
            send: at("/v2/email/outbound-emails")?,
            account: at("/v2/email/account")?,
            credentials,
            region: region.to_owned(),
            configuration_set: configuration_set.map(str::to_owned),
        })
    }

    fn sign(
        &self,
        method: &Method,
        url: &Url,
        body: &[u8],
    ) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let signer = Signer {
            credentials: &self.credentials,
            region: &self.region,
            service: "ses",
        };
        signer.sign(method, url, body, Timestamp::now())
    }
}

fn list(people: &[Person]) -> Value {
    people.iter().map(|person| person.address.clone()).collect()
}

/// The exception's name, without what stands before and after it.
fn exception(answer: &RawAnswer, json: &Value) -> Option<String> {
    let header = answer.header("x-amzn-errortype").map(str::to_owned);
    let name = header
        .or_else(|| text_at(json, "/__type"))
        .or_else(|| text_at(json, "/code"))?;
    let name = name
        .rsplit_once('#')
        .map_or(name.as_str(), |(_, name)| name);
    let name = name.split(':').next().unwrap_or(name).trim();
    (!name.is_empty()).then(|| name.to_owned())
}

impl Api for Ses {
    fn provider(&self) -> Provider {
        Provider::Ses
    }

    fn addressing(&self) -> Addressing {
        Addressing::Envelope
    }

    fn most_recipients(&self) -> usize {
        50
    }

    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause> {
        let mut destination = json!({});
        put(&mut destination, "ToAddresses", list(&group.to));
        put(&mut destination, "CcAddresses", list(&group.cc));
        put(&mut destination, "BccAddresses", list(&group.bcc));
        let mut body = json!({
            "Content": {"Raw": {"Data": BASE64.encode(&mail.outgoing.content)}},
            "Destination": destination,
            "EmailTags": [{"Name": OUR_ID, "Value": mail.outgoing.email_id.to_string()}],
        });
        put(
            &mut body,
            "ConfigurationSetName",
            json!(self.configuration_set),
        );
        let body = body.to_string();
        let headers = self.sign(&Method::POST, &self.send, body.as_bytes());
        let headers = headers.ok_or_else(|| Cause::Credentials(UNSIGNED.to_owned()))?;
        let request = client
            .post(self.send.clone())
            .headers(headers.into_iter().collect())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        request.build().map_err(not_built)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        let json = answer.json();
        if answer.is_positive() {
            return accepted(text_at(&json, "/MessageId"), None);
        }
        let text = text_at(&json, "/message").or_else(|| text_at(&json, "/Message"));
        refused(answer, exception(answer, &json), text)
    }

    fn probe(&self, client: &Client) -> Result<Probe, String> {
        let headers = self.sign(&Method::GET, &self.account, b"");
        get(client, &self.account, headers.ok_or(UNSIGNED)?)
    }

    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        match self.read(answer) {
            Reading::Accepted(_) => {
                if answer.json()["SendingEnabled"] == json!(false) {
                    return Err("sending is switched off for this account".to_owned());
                }
                Ok("the credentials are valid and the account may send".to_owned())
            }
            // Whoever may only send may not ask, but was recognised.
            Reading::Refused(refused)
                if refused.name.as_deref() == Some("AccessDeniedException") =>
            {
                Ok("the credentials are valid; they may not read the account's state".to_owned())
            }
            Reading::Refused(refused) => Err(refused.to_string()),
        }
    }
}

const UNSIGNED: &str = "the request could not be signed; check the credentials";
