//! Mailgun: `POST /v3/<domain>/messages.mime`, our message as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Request, Url};
use secrecy::{ExposeSecret, SecretString};

use super::{Api, OUR_ID, Probe, Reading, accepted, get, not_built, refused, text_at};
use crate::http::config::{HttpConfigError, below, secret_header};
use crate::http::exchange::RawAnswer;
use crate::http::mail::{Addressing, Group, Mail};

const BASE: &str = "https://api.mailgun.net";

pub(super) struct Mailgun {
    messages: Url,
    domain: Url,
    authorization: HeaderValue,
}

impl Mailgun {
    pub(super) fn new(
        key: &SecretString,
        domain: &str,
        base: Option<&str>,
    ) -> Result<Self, HttpConfigError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if domain.is_empty() || domain.starts_with('.') || !domain.chars().all(is_name) {
            return Err(HttpConfigError::Domain);
        }
        secret_header("api_key", "", key)?;
        let basic = BASE64.encode(format!("api:{}", key.expose_secret()));
        Ok(Self {
            messages: below(
                "base_url",
                base,
                BASE,
                &format!("/v3/{domain}/messages.mime"),
            )?,
            domain: below("base_url", base, BASE, &format!("/v4/domains/{domain}"))?,
            authorization: secret_header("api_key", "Basic ", &basic.into())?,
        })
    }
}

/// A form of several parts, as browsers send files.
struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    /// The boundary is found nowhere in the content.
    fn around(content: &[u8], id: &str) -> Self {
        let mut boundary = format!("posthaste-{id}");
        while content
            .windows(boundary.len())
            .any(|bytes| bytes == boundary.as_bytes())
        {
            boundary.push('x');
        }
        Self {
            body: Vec::with_capacity(content.len() + 1024),
            boundary,
        }
    }

    fn add(&mut self, name: &str, more: &str, content: &[u8]) {
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n",
            self.boundary
        );
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(content);
        self.body.extend_from_slice(b"\r\n");
    }

    fn finish(mut self) -> (String, Vec<u8>) {
        let end = format!("--{}--\r\n", self.boundary);
        self.body.extend_from_slice(end.as_bytes());
        let kind = format!("multipart/form-data; boundary={}", self.boundary);
        (kind, self.body)
    }
}

impl Api for Mailgun {
    fn provider(&self) -> Provider {
        Provider::Mailgun
    }

    fn addressing(&self) -> Addressing {
        Addressing::Envelope
    }

    fn most_recipients(&self) -> usize {
        1000
    }

    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause> {
        let id = mail.outgoing.email_id.to_string();
        let addresses: Vec<&str> = group.people().map(|one| one.address.as_str()).collect();
        let mut form = Form::around(&mail.outgoing.content, &id);
        form.add("to", "", addresses.join(", ").as_bytes());
        form.add(&format!("v:{OUR_ID}"), "", id.as_bytes());
        form.add(
            "message",
            "; filename=\"message.eml\"\r\nContent-Type: message/rfc822",
            &mail.outgoing.content,
        );
        let (kind, body) = form.finish();
        let request = client
            .post(self.messages.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, kind)
            .body(body);
        request.build().map_err(not_built)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        let json = answer.json();
        let text = text_at(&json, "/message");
        if answer.is_positive() {
            let id = text_at(&json, "/id");
            let id = id.map(|id| id.trim_matches(['<', '>']).to_owned());
            return accepted(id, text);
        }
        refused(answer, None, text)
    }

    fn probe(&self, client: &Client) -> Result<Probe, String> {
        let headers = vec![(AUTHORIZATION, self.authorization.clone())];
        get(client, &self.domain, headers)
    }

    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        match self.read(answer) {
            Reading::Accepted(_) => match text_at(&answer.json(), "/domain/state") {
                Some(state) if state != "active" => Err(format!("the domain is {state}")),
                _ => Ok("the key is valid, the domain is known".to_owned()),
            },
            Reading::Refused(refused) if refused.status == 403 => {
                Ok("it answers; whether the key may send cannot be seen by it".to_owned())
            }
            Reading::Refused(refused) => Err(refused.to_string()),
        }
    }
}
