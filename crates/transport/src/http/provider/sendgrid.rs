//! SendGrid v3: `POST /v3/mail/send`.

use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, Request, Url};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Api, OUR_ID, Probe, Reading, Refused, accepted, get, not_a_message, post_json, put, refused,
    text_at,
};
use crate::http::config::{HttpConfigError, below, secret_header};
use crate::http::exchange::RawAnswer;
use crate::http::letter::Letter;
use crate::http::mail::{Addressing, Group, Mail};
use crate::http::person::{Person, quoted};

const BASE: &str = "https://api.sendgrid.com";
/// Headers that SendGrid keeps for itself, beyond those that have fields.
const RESERVED: [&str; 2] = ["x-sg-id", "x-sg-eid"];

pub(super) struct SendGrid {
    send: Url,
    scopes: Url,
    authorization: HeaderValue,
}

impl SendGrid {
    pub(super) fn new(key: &SecretString, base: Option<&str>) -> Result<Self, HttpConfigError> {
        Ok(Self {
            send: below("base_url", base, BASE, "/v3/mail/send")?,
            scopes: below("base_url", base, BASE, "/v3/scopes")?,
            authorization: secret_header("api_key", "Bearer ", key)?,
        })
    }
}

fn entry(person: &Person) -> Value {
    let mut entry = json!({"email": person.address});
    put(&mut entry, "name", json!(person.name));
    entry
}

/// Among the recipients, SendGrid takes a comma or semicolon in a name for the end of the name.
fn recipients(people: &[Person]) -> Value {
    let recipient = |person: &Person| {
        let mut entry = entry(person);
        if let Some(name) = &person.name
            && name.contains([',', ';'])
        {
            entry["name"] = json!(quoted(name));
        }
        entry
    };
    people.iter().map(recipient).collect()
}

/// Plain text first, then HTML, then the rest, as SendGrid wants them.
fn content(letter: &Letter) -> Value {
    let part = |kind: &str, value: &str| json!({"type": kind, "value": value});
    let text = letter.text_or_blank().map(|text| part("text/plain", text));
    let html = letter.html().map(|html| part("text/html", html));
    // The only parameter that SendGrid lets a type have.
    let calendar = letter.calendar.as_ref().map(|calendar| {
        let kind = match &calendar.method {
            Some(method) => format!("text/calendar; method={method}"),
            None => "text/calendar".to_owned(),
        };
        part(&kind, &calendar.content)
    });
    text.into_iter().chain(html).chain(calendar).collect()
}

impl Api for SendGrid {
    fn provider(&self) -> Provider {
        Provider::SendGrid
    }

    fn addressing(&self) -> Addressing {
        Addressing::Headers
    }

    fn most_recipients(&self) -> usize {
        1000
    }

    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause> {
        let letter = mail.letter().ok_or_else(not_a_message)?;
        let mut envelope = json!({"to": recipients(&group.to)});
        put(&mut envelope, "cc", recipients(&group.cc));
        put(&mut envelope, "bcc", recipients(&group.bcc));
        let mut body = json!({
            "personalizations": [envelope],
            "from": entry(&mail.from()),
            "subject": letter.subject,
            "content": content(letter),
            "custom_args": {OUR_ID: mail.outgoing.email_id.to_string()},
        });
        let reply_to = letter.reply_to.iter().map(entry);
        put(&mut body, "reply_to_list", reply_to.collect());
        let message_id = letter.message_id.iter();
        let message_id = message_id.map(|id| ("Message-ID".to_owned(), json!(id)));
        let headers = letter.headers.iter();
        let headers = headers
            .filter(|(name, _)| !RESERVED.contains(&name.to_ascii_lowercase().as_str()))
            .map(|(name, value)| (name.clone(), json!(value)));
        let headers = Value::Object(message_id.chain(headers).collect());
        put(&mut body, "headers", headers);
        let files = letter.files.iter().map(|file| {
            let is_inline = file.content_id.is_some();
            let mut entry = json!({
                "filename": file.name,
                "type": file.kind,
                "content": file.base64,
                "disposition": if is_inline { "inline" } else { "attachment" },
            });
            put(&mut entry, "content_id", json!(file.content_id));
            entry
        });
        put(&mut body, "attachments", files.collect());
        let headers = vec![(AUTHORIZATION, self.authorization.clone())];
        post_json(client, &self.send, headers, &body)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        if answer.is_positive() {
            return accepted(answer.header("x-message-id").map(str::to_owned), None);
        }
        let json = answer.json();
        let errors = json["errors"].as_array().into_iter().flatten();
        let errors: Vec<String> = errors
            .filter_map(|error| {
                let message = text_at(error, "/message")?;
                Some(match text_at(error, "/field") {
                    Some(field) => format!("{field}: {message}"),
                    None => message,
                })
            })
            .collect();
        let text = (!errors.is_empty()).then(|| errors.join("; "));
        refused(answer, None, text)
    }

    fn named_in(&self, refused: &Refused, group: &Group) -> Vec<String> {
        let lists = [("to", &group.to), ("cc", &group.cc), ("bcc", &group.bcc)];
        let found = lists.iter().flat_map(|(field, people)| {
            people.iter().enumerate().filter(move |(at, _)| {
                let place = format!("personalizations.0.{field}.{at}.");
                refused.text.contains(&place)
            })
        });
        found.map(|(_, person)| person.folded()).collect()
    }

    fn probe(&self, client: &Client) -> Result<Probe, String> {
        let headers = vec![(AUTHORIZATION, self.authorization.clone())];
        get(client, &self.scopes, headers)
    }

    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        match self.read(answer) {
            Reading::Accepted(_) => {
                let json = answer.json();
                let mut scopes = json["scopes"].as_array().into_iter().flatten();
                if scopes.any(|scope| scope == "mail.send") {
                    Ok("the key is valid and may send".to_owned())
                } else {
                    Err("the key lacks the scope mail.send".to_owned())
                }
            }
            Reading::Refused(refused) => Err(refused.to_string()),
        }
    }
}
