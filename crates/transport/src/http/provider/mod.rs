//! The providers: how each wants to be asked, and what its answers mean.
//!
//! An adapter builds requests and reads answers. It makes no request itself, so that what must
//! hold for all of them (the gate, deadlines, what is certain) stands in one place.

mod mailgun;
mod postmark;
mod resend;
mod sendgrid;
mod ses;
mod signature;
mod template;

use posthaste_core::answer::Provider;
use posthaste_core::attempt::Cause;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Request, Url};
use serde_json::Value;

use super::config::{HttpConfigError, ProviderConfig};
use super::exchange::RawAnswer;
use super::mail::{Addressing, Group, Mail};
use super::person::Person;

/// The name under which our email's id goes along, so that the provider repeats it when it speaks
/// of the message later.
const OUR_ID: &str = "posthaste_id";

/// What an answer to a request says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Yes.
    Accepted(Accepted),
    /// No.
    Refused(Refused),
}

/// A yes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// What the provider calls the message.
    pub(super) id: Option<String>,
    /// What it said.
    pub(super) text: String,
    /// Those it does not send to all the same, in lower case, and why.
    pub(super) except: Option<(Vec<String>, Refused)>,
}

/// A no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The status that says it best.
    pub(super) status: u16,
    /// The provider's name of the error.
    pub(super) name: Option<String>,
    /// What it said.
    pub(super) text: String,
}

/// How to find out whether a provider would take our mail, without sending any.
pub(super) enum Probe {
    /// By a question that needs the same key.
    Ask(Request),
    /// Only by connecting.
    Connect(Url),
}

/// A provider's API.
pub(super) trait Api: Send + Sync {
    /// Whose it is.
    fn provider(&self) -> Provider;

    /// Whether it sends nothing twice that carries the same key of ours.
    fn honours_keys(&self) -> bool {
        self.provider().honours_keys()
    }

    /// What it makes of the lists of recipients.
    fn addressing(&self) -> Addressing;

    /// How many recipients one request may have.
    fn most_recipients(&self) -> usize;

    /// The request for these recipients.
    fn request(&self, client: &Client, mail: &Mail<'_>, group: &Group) -> Result<Request, Cause>;

    /// What an answer to such a request says.
    fn read(&self, answer: &RawAnswer) -> Reading;

    /// Those whom a refusal names, in lower case, where the others are not to blame.
    fn named_in(&self, refused: &Refused, group: &Group) -> Vec<String> {
        let text = refused.text.to_lowercase();
        let people = group.people().map(Person::folded);
        people.filter(|address| names(&text, address)).collect()
    }

    /// How to find out whether it would take our mail.
    fn probe(&self, client: &Client) -> Result<Probe, String>;

    /// What the answer to the probe says: that all is well, or what is not.
    fn read_probe(&self, answer: &RawAnswer) -> Result<String, String> {
        if answer.is_positive() {
            return Ok("the key is valid".to_owned());
        }
        let Reading::Refused(refused) = self.read(answer) else {
            return Err(format!("HTTP {}", answer.status));
        };
        Err(refused.to_string())
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// The adapter for a provider.
pub(super) fn api(config: &ProviderConfig) -> Result<Box<dyn Api>, HttpConfigError> {
    Ok(match config {
        ProviderConfig::Resend { api_key, base_url } => {
            Box::new(resend::Resend::new(api_key, base_url.as_deref())?)
        }
        ProviderConfig::SendGrid { api_key, base_url } => {
            Box::new(sendgrid::SendGrid::new(api_key, base_url.as_deref())?)
        }
        ProviderConfig::Postmark {
            server_token,
            message_stream,
            base_url,
        } => Box::new(postmark::Postmark::new(
            server_token,
            message_stream.as_deref(),
            base_url.as_deref(),
        )?),
        ProviderConfig::Mailgun {
            api_key,
            domain,
            base_url,
        } => Box::new(mailgun::Mailgun::new(api_key, domain, base_url.as_deref())?),
        ProviderConfig::Ses {
            access_key_id,
            secret_access_key,
            session_token,
            region,
            configuration_set,
            endpoint,
        } => Box::new(ses::Ses::new(
            signature::Credentials {
                access_key_id: access_key_id.clone(),
                secret_access_key: secret_access_key.clone(),
                session_token: session_token.clone(),
            },
            region,
            configuration_set.as_deref(),
            endpoint.as_deref(),
        )?),
        ProviderConfig::Http { .. } => Box::new(template::Template::new(config)?),
    })
}

/// A POST of JSON with these headers.
fn post_json(
    client: &Client,
    url: &Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: &Value,
) -> Result<Request, Cause> {
    let request = client
        .post(url.clone())
        .headers(headers.into_iter().collect())
        .header(CONTENT_TYPE, "application/json")
        .body(body.to_string());
    request.build().map_err(not_built)
}

/// A question with these headers.
fn get(
    client: &Client,
    url: &Url,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<Probe, String> {
    let request = client
        .get(url.clone())
        .headers(headers.into_iter().collect())
        .build();
    request
        .map(Probe::Ask)
        .map_err(|error| error.without_url().to_string())
}

fn not_built(error: reqwest::Error) -> Cause {
    Cause::Io(error.without_url().to_string())
}

fn not_a_message() -> Cause {
    Cause::NotSupported("a message that cannot be read".to_owned())
}

/// A field of an answer as text: a string or a number.
fn text_at(answer: &Value, pointer: &str) -> Option<String> {
    match answer.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A no whose text is one field of the answer, or all of it.
fn refused(answer: &RawAnswer, name: Option<String>, text: Option<String>) -> Reading {
    Reading::Refused(Refused {
        status: answer.status,
        name,
        text: text.unwrap_or_else(|| answer.text()),
    })
}

/// A yes.
fn accepted(id: Option<String>, text: Option<String>) -> Reading {
    Reading::Accepted(Accepted {
        id,
        text: text.unwrap_or_else(|| "accepted".to_owned()),
        except: None,
    })
}

/// Whether a text names this address, and not one that ends or begins with it.
fn names(text: &str, address: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "!#$%&*+-/=?^_{|}~.@".contains(c);
    text.match_indices(address).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + address.len()..].chars();
        let ends = match after.next() {
            // A full stop ends a sentence unless something follows it at once.
            Some('.') => !after.next().is_some_and(is_part),
            next => !next.is_some_and(is_part),
        };
        ends && !before.is_some_and(is_part)
    })
}

/// Puts a field into an object unless there is nothing to put.
fn put(object: &mut Value, field: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !is_empty {
        object[field] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn an_address_is_found_only_as_a_whole() {
        for text in [
            "no: ann@example.org",
            "illegal address 'ann@example.org'.",
            "<ann@example.org>",
            "ann@example.org.",
            "joann@example.org, ann@example.org. more",
        ] {
            assert!(names(text, "ann@example.org"), "{text}");
        }
        for text in [
            "",
            "joann@example.org",
            "jo.ann@example.org",
            "ann@example.org.uk",
            "ann@example.orgs",
        ] {
            assert!(!names(text, "ann@example.org"), "{text}");
        }
    }
}
