//! Postmark: `POST /email`.

use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Client, Request, Url};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Accepted, Api, OUR_ID, Probe, Reading, Refused, get, not_a_message, post_json, put, refused,
    text_at,
};
use crate::http::config::{HttpConfigError, below, secret_header};
use crate::http::exchange::RawAnswer;
use crate::http::mail::{Addressing, Group, Mail};
use crate::http::person::Person;

const BASE: &str = "https://api.postmarkapp.com";
/// Postmark's number for recipients that it sends nothing to any more.
const INACTIVE: &str = "406";
/// What stands before their addresses in its text.
const INACTIVE_TEXT: &str = "inactive addresses:";

pub(super) struct Postmark {
    email: Url,
    server: Url,
    token: HeaderValue,
    stream: Option<String>,
}

impl Postmark {
    pub(super) fn new(
        token: &SecretString,
        stream: Option<&str>,
        base: Option<&str>,
    ) -> Result<Self, HttpConfigError> {
        Ok(Self {
            email: below("base_url", base, BASE, "/email")?,
            server: below("base_url", base, BASE, "/server")?,
            token: secret_header("server_token", "", token)?,
            stream: stream.map(str::to_owned),
        })
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![
            (
                HeaderName::from_static("x-postmark-server-token"),
                self.token.clone(),
            ),
            (ACCEPT, HeaderValue::from_static("application/json")),
        ]
    }
}

fn list(people: &[Person]) -> Value {
    if people.is_empty() {
        return Value::Null;
    }
    let people: Vec<String> = people.iter().map(Person::in_header).collect();
    Value::String(people.join(", "))
}

/// The addresses that Postmark names as inactive, in lower case.
fn inactive(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once(INACTIVE_TEXT) else {
        return Vec::new();
    };
    let words = rest.split(|c: char| c == ',' || c.is_whitespace());
    words
        .map(|word| word.trim_end_matches('.').to_lowercase())
        .filter(|word| !word.is_empty())
        .take_while(|word| word.contains('@'))
        .collect()
}

impl Api for Postmark {
    fn provider(&self) -> Provider {
        Provider::Postmark
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
            "From": mail.from().in_header(),
            "To": list(&group.to),
            "Subject": letter.subject,
            "Metadata": {OUR_ID: mail.outgoing.email_id.to_string()},
        });
        put(&mut body, "Cc", list(&group.cc));
        put(&mut body, "Bcc", list(&group.bcc));
        put(&mut body, "ReplyTo", list(&letter.reply_to));
        put(&mut body, "TextBody", json!(letter.text_or_blank()));
        put(&mut body, "HtmlBody", json!(letter.html()));
        put(&mut body, "MessageStream", json!(self.stream));
        let header = |name: &str, value: &str| json!({"Name": name, "Value": value});
        let mut headers: Vec<Value> = Vec::new();
        if let Some(id) = &letter.message_id {
            headers.push(header("Message-ID", id));
            headers.push(header("X-PM-KeepID", "true"));
        }
        let own = letter.headers.iter();
        headers.extend(own.map(|(name, value)| header(name, value)));
        put(&mut body, "Headers", Value::Array(headers));
        let files = letter.files_with_invitation().into_iter().map(|file| {
            let id = file.content_id.as_ref().map(|id| format!("cid:{id}"));
            let mut entry = json!({
                "Name": file.name,
                "ContentType": file.whole_kind(),
                "Content": file.base64,
            });
            put(&mut entry, "ContentID", json!(id));
            entry
        });
        put(&mut body, "Attachments", files.collect());
        post_json(client, &self.email, self.headers(), &body)
    }

    fn read(&self, answer: &RawAnswer) -> Reading {
        let json = answer.json();
        let code = text_at(&json, "/ErrorCode").filter(|code| code != "0");
        let text = text_at(&json, "/Message");
        if !answer.is_positive() {
            return refused(answer, code, text);
        }
        let text = text.unwrap_or_else(|| "accepted".to_owned());
        let refused = |name: String| Refused {
            status: 422,
            name: Some(name),
            text: text.clone(),
        };
        // A number in a good answer is not documented; if one comes, it is a no.
        if let Some(code) = code {
            return Reading::Refused(refused(code));
        }
        let inactive = inactive(&text);
        Reading::Accepted(Accepted {
            id: text_at(&json, "/MessageID"),
            except: (!inactive.is_empty()).then(|| (inactive, refused(INACTIVE.to_owned()))),
            text,
        })
    }

    fn probe(&self, client: &Client) -> Result<Probe, String> {
        get(client, &self.server, self.headers())
    }

    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        if !answer.is_positive() {
            return match self.read(answer) {
                Reading::Refused(refused) => Err(refused.to_string()),
                Reading::Accepted(_) => Err(format!("HTTP {}", answer.status)),
            };
        }
        Ok(match text_at(&answer.json(), "/Name") {
            Some(name) => format!("the token is valid, for the server {name}"),
            None => "the token is valid".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::inactive;

    #[test]
    fn inactive_addresses_are_read_from_the_text() {
        let cases: [(&str, &[&str]); 4] = [
            ("OK", &[]),
            (
                "Message OK, but will not deliver to these inactive addresses: Gone@example.org, b@example.org. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.",
                &["gone@example.org", "b@example.org"],
            ),
            (
                "Message OK, but will not deliver to these inactive addresses: gone@example.org",
                &["gone@example.org"],
            ),
            (
                "You tried to send to recipient(s) that have been marked as inactive.\nFound inactive addresses: gone@example.org.\nInactive recipients are ones that have generated a hard bounce.",
                &["gone@example.org"],
            ),
        ];
        for (text, addresses) in cases {
            assert_eq!(inactive(text), addresses, "{text}");
        }
    }
}
