//! Resend: `POST /emails`, with our key against duplicates.

use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Client, Request, Url};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Api, OUR_ID, Probe, Reading, accepted, get, not_a_message, post_json, put, refused, text_at,
};
use crate::http::config::{HttpConfigError, below, secret_header};
use crate::http::exchange::RawAnswer;
use crate::http::mail::{Addressing, Group, Mail};
use crate::http::person::Person;

const BASE: &str = "https://api.resend.com";

pub(super) struct Resend {
    emails: Url,
    domains: Url,
    authorization: HeaderValue,
}

impl Resend {
    pub(super) fn new(key: &SecretString, base: Option<&str>) -> Result<Self, HttpConfigError> {
        Ok(Self {
            emails: below("base_url", base, BASE, "/emails")?,
            domains: below("base_url", base, BASE, "/domains")?,
            authorization: secret_header("api_key", "Bearer ", key)?,
        })
    }
}

/// Resend does not take names in quotes, but encoded ones; in `from` it takes neither.
fn list(people: &[Person]) -> Value {
    people.iter().map(Person::without_quotes).collect()
}

impl Api for Resend {
    fn provider(&self) -> Provider {
        Provider::Resend
    }

    fn addressing(&self) -> Addressing {
        Addressing::Headers
    }

    fn most_recipients(&self) -> usize {
        50
    }

    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause> {
        let letter = mail.letter().ok_or_else(not_a_message)?;
        let mut body = json!({
            "from": mail.from().plainly(),
            "to": list(&group.to),
            "subject": letter.subject,
            "tags": [{"name": OUR_ID, "value": mail.outgoing.email_id.to_string()}],
        });
        put(&mut body, "cc", list(&group.cc));
        put(&mut body, "bcc", list(&group.bcc));
        put(&mut body, "reply_to", list(&letter.reply_to));
        put(&mut body, "text", json!(letter.text_or_blank()));
        put(&mut body, "html", json!(letter.html()));
        let headers = letter.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), json!(value)));
        put(&mut body, "headers", Value::Object(headers.collect()));
        let files = letter.files_with_invitation().into_iter().map(|file| {
            let mut entry = json!({
                "filename": file.name,
                "content_type": file.whole_kind(),
                "content": file.base64,
            });
            put(&mut entry, "content_id", json!(file.content_id));
            entry
        });
        put(&mut body, "attachments", files.collect());
        let key = HeaderValue::from_str(&mail.key(group));
        let key = key.map_err(|error| Cause::Io(error.to_string()))?;
        let headers = vec![
            (AUTHORIZATION, self.authorization.clone()),
            (HeaderName::from_static("idempotency-key"), key),
        ];
        post_json(client, &self.emails, headers, &body)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        let json = answer.json();
        if answer.is_positive() {
            return accepted(text_at(&json, "/id"), None);
        }
        refused(answer, text_at(&json, "/name"), text_at(&json, "/message"))
    }

    fn probe(&self, client: &Client) -> Result<Probe, String> {
        let headers = vec![(AUTHORIZATION, self.authorization.clone())];
        get(client, &self.domains, headers)
    }

    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        match self.read(answer) {
            Reading::Accepted(_) => Ok("the key is valid".to_owned()),
            // A key that may do nothing but send is what we ask for.
            Reading::Refused(refused) if refused.name.as_deref() == Some("restricted_api_key") => {
                Ok("the key is valid, for sending only".to_owned())
            }
            Reading::Refused(refused) => Err(refused.to_string()),
        }
    }
}
