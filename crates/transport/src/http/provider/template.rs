//! Any other API that takes JSON: the body is made by a template.
//!
//! Every value stands in the body as a JSON literal, so that nothing in an email can become a
//! part of the body's structure. What the template makes is checked to be JSON before it is sent.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Api, Probe, Reading, accepted, not_a_message, not_built, refused, text_at};
use crate::http::config::{HttpConfigError, ProviderConfig, url};
use crate::http::exchange::RawAnswer;
use crate::http::letter::Letter;
use crate::http::mail::{Addressing, Group, Mail};
use crate::http::person::Person;

/// How much a template may do.
const FUEL: u64 = 1_000_000;
/// The name of the template in errors; its ending has no meaning.
const NAME: &str = "body_template";
/// Headers that are ours to set.
const OWN: [&str; 3] = ["content-type", "content-length", "host"];

pub(super) struct Template {
    environment: Environment<'static>,
    source: String,
    url: Url,
    method: Method,
    headers: HeaderMap,
    id: Option<String>,
    error: Option<String>,
    key: Option<HeaderName>,
    honours_key: bool,
}

impl Template {
    pub(super) fn new(config: &ProviderConfig) -> Result<Self, HttpConfigError> {
        let ProviderConfig::Http {
            url: place,
            method,
            headers,
            body_template,
            id_pointer,
            error_pointer,
            idempotency_header,
            honours_key,
        } = config
        else {
            return Err(HttpConfigError::Url("url"));
        };
        let method = match method.as_deref().unwrap_or("POST") {
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            _ => return Err(HttpConfigError::Method),
        };
        let key = match idempotency_header {
            Some(name) => {
                let name = HeaderName::from_bytes(name.as_bytes());
                Some(name.map_err(|_| HttpConfigError::IdempotencyHeader)?)
            }
            None if *honours_key => return Err(HttpConfigError::NoKeyToHonour),
            None => None,
        };
        let template = Self {
            environment: environment(),
            source: body_template.clone(),
            url: url("url", place)?,
            method,
            headers: header_map(headers)?,
            id: pointer("id_pointer", id_pointer)?,
            error: pointer("error_pointer", error_pointer)?,
            key,
            honours_key: *honours_key,
        };
        template
            .render(&sample())
            .map_err(HttpConfigError::Template)?;
        Ok(template)
    }

    /// The body, or what is wrong with it.
    fn render(&self, values: &Value) -> Result<String, String> {
        let template = self
            .environment
            .template_from_named_str(NAME, &self.source)
            .map_err(|error| error.to_string())?;
        let body = template
            .render(value_of(values))
            .map_err(|error| error.to_string())?;
        match serde_json::from_str::<&RawValue>(&body) {
            Ok(_) => Ok(body),
            Err(error) => Err(format!("it does not make JSON: {error}")),
        }
    }

    /// What a template can name. What is large is made only where it is named.
    fn values(&self, mail: &Mail<'_>, letter: &Letter, group: &Group) -> Value {
        let outgoing = mail.outgoing;
        let mut values = json!({
            "email_id": outgoing.email_id.to_string(),
            "attempt": outgoing.attempt_number,
            "idempotency_key": mail.key(group),
            "from": entry(&mail.from()),
            "to": list(&group.to),
            "cc": list(&group.cc),
            "bcc": list(&group.bcc),
            "reply_to": list(&letter.reply_to),
            "subject": letter.subject,
            "text": letter.text,
            "html": letter.html,
            "headers": Value::Object(
                letter.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect(),
            ),
            "message_id": letter.message_id,
            "calendar": letter.calendar.as_ref().map(|calendar| json!({
                "method": calendar.method,
                "content": calendar.content,
            })),
            "attachments": [],
            "raw_base64": "",
        });
        if self.source.contains("attachments") {
            let files = letter.files.iter().map(|file| {
                json!({
                    "filename": file.name,
                    "content_type": file.whole_kind(),
                    "content": file.base64,
                    "content_id": file.content_id,
                })
            });
            values["attachments"] = files.collect();
        }
        if self.source.contains("raw_base64") {
            values["raw_base64"] = json!(BASE64.encode(&outgoing.content));
        }
        values
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Json);
    environment.set_fuel(Some(FUEL));
    environment
}

fn value_of(json: &Value) -> minijinja::Value {
    match json {
        Value::Null => ().into(),
        Value::Bool(yes) => (*yes).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => list.iter().map(value_of).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(name, value)| (name.clone(), value_of(value)));
            entries.collect::<BTreeMap<_, _>>().into()
        }
    }
}

fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, HttpConfigError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| HttpConfigError::HeaderName(name.clone()))?;
        if OWN.contains(&key.as_str()) {
            return Err(HttpConfigError::OwnHeader(name.clone()));
        }
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| HttpConfigError::HeaderValue(name.clone()))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

fn pointer(
    field: &'static str,
    pointer: &Option<String>,
) -> Result<Option<String>, HttpConfigError> {
    match pointer {
        Some(text) if !text.starts_with('/') => Err(HttpConfigError::Pointer(field)),
        pointer => Ok(pointer.clone()),
    }
}

fn entry(person: &Person) -> Value {
    json!({
        "name": person.name,
        "address": person.address,
        "formatted": person.in_header(),
    })
}

fn list(people: &[Person]) -> Value {
    people.iter().map(entry).collect()
}

/// An email that has everything, to try a template on.
fn sample() -> Value {
    let ann = json!({
        "name": "Ann",
        "address": "ann@example.org",
        "formatted": "Ann <ann@example.org>",
    });
    json!({
        "email_id": "0193a2c5-0000-7000-8000-000000000000",
        "attempt": 1,
        "idempotency_key": "0193a2c5-0000-7000-8000-000000000000",
        "from": ann,
        "to": [ann],
        "cc": [ann],
        "bcc": [ann],
        "reply_to": [ann],
        "subject": "A \"sample\"",
        "text": "Hello.",
        "html": "<p>Hello.</p>",
        "headers": {"X-Sample": "yes"},
        "message_id": "<sample@example.org>",
        "calendar": {"method": "REQUEST", "content": "BEGIN:VCALENDAR"},
        "attachments": [{
            "filename": "sample.txt",
            "content_type": "text/plain",
            "content": "SGVsbG8u",
            "content_id": "sample",
        }],
        "raw_base64": "SGVsbG8u",
    })
}

impl Api for Template {
    fn provider(&self) -> Provider {
        Provider::Http
    }

    fn honours_keys(&self) -> bool {
        self.honours_key
    }

    fn addressing(&self) -> Addressing {
        Addressing::Headers
    }

    fn most_recipients(&self) -> usize {
        usize::MAX
    }

    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause> {
        let letter = mail.letter().ok_or_else(not_a_message)?;
        let body = self.render(&self.values(mail, letter, group));
        let body = body.map_err(|error| {
            Cause::NotSupported(format!("what body_template makes of this email: {error}"))
        })?;
        let mut headers = self.headers.clone();
        if let Some(name) = &self.key {
            let key = HeaderValue::from_str(&mail.key(group));
            let key = key.map_err(|error| Cause::Io(error.to_string()))?;
            headers.insert(name.clone(), key);
        }
        let request = client
            .request(self.method.clone(), self.url.clone())
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        request.build().map_err(not_built)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        let json = answer.json();
        let at = |pointer: &Option<String>| text_at(&json, pointer.as_deref()?);
        if answer.is_positive() {
            return accepted(at(&self.id), None);
        }
        refused(answer, at(&self.error), None)
    }

    fn probe(&self, _client: &Client) -> Result<Probe, String> {
        Ok(Probe::Connect(self.url.clone()))
    }
}
