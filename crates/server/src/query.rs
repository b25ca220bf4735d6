//! Parameters of a list, read as strictly as bodies are.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use posthaste_core::Timestamp;
use posthaste_core::address::Mailbox;
use posthaste_core::port::{AuditFilter, EmailFilter, MessageFilter, SuppressionFilter};
use posthaste_core::status::{Status, UnknownName};
use posthaste_engine::FieldError;
use posthaste_engine::operator::LONGEST_LIST;
use utoipa::IntoParams;

use crate::body::place_of;
use crate::problem::{Kind, Problem};

const DEFAULT_LIMIT: usize = 50;

/// The parameters of a request, in their order.
#[derive(Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Query::from_request_parts(parts, state)
            .await
            .map(|Query(pairs)| Self(pairs))
            .map_err(|_| Problem::new(Kind::Invalid, "The query of the address cannot be read."))
    }
}

/// What all lists of emails can be asked for, for the description of the API.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct ListParameters {
    /// Only from this template.
    template: Option<String>,
    /// Only to this address.
    to: Option<String>,
    /// An id, a key, an exact address or the start of a subject.
    q: Option<String>,
    /// Only accepted at or after this moment (RFC 3339).
    since: Option<String>,
    /// At most this many, from 1 to 500; 50 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// What the page before gave as `next`.
    after: Option<uuid::Uuid>,
}

/// What the list of messages can be asked for, for the description of the API.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct MessageParameters {
    /// Only in this state: `pending`, `retried`, `failed` or `discarded`; may be given several
    /// times or as `a,b`.
    status: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// At most this many, from 1 to 500; 50 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// What the page before gave as `next`.
    after: Option<String>,
}

/// What the audit log can be asked for, for the description of the API.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct AuditParameters {
    /// Only by this actor, for example `admin:ann` or `key:1f2e3d4c`.
    actor: Option<String>,
    /// Only of this kind, for example `retry`.
    action: Option<String>,
    /// Only about this email, message, key, template, operation or admin.
    subject: Option<String>,
    /// At most this many, from 1 to 500; 50 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// What the page before gave as `next`.
    after: Option<String>,
}

/// What the list of addresses that get nothing any more can be asked for, for the description of
/// the API.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct SuppressionParameters {
    /// Only addresses that begin with this; `@` and a domain for all of that domain.
    q: Option<String>,
    /// Only of this owner's list.
    owner: Option<String>,
    /// At most this many, from 1 to 500; 50 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// What the page before gave as `next`.
    after: Option<String>,
}

impl Parameters {
    /// The filter for a list of emails.
    pub(crate) fn email_filter(self, owner: Option<&str>) -> Result<EmailFilter, Problem> {
        self.filter(owner, true, false)
    }

    /// The filter for a list of dead letters.
    pub(crate) fn dead_filter(self, owner: Option<&str>) -> Result<EmailFilter, Problem> {
        let mut filter = self.filter(owner, false, true)?;
        filter.statuses = vec![Status::Dead];
        Ok(filter)
    }

    /// The filter for a list of messages.
    pub(crate) fn message_filter(self) -> Result<MessageFilter, Problem> {
        let mut filter = MessageFilter {
            limit: DEFAULT_LIMIT,
            ..MessageFilter::default()
        };
        let mut reading = Reading::default();
        for (name, text) in self.given() {
            match name {
                "status" => reading.add(&mut filter.statuses, name, text),
                "queue" => reading.set(&mut filter.queue, name, Ok(Some(text.to_owned()))),
                "limit" => reading.set(&mut filter.limit, name, limit_of(text)),
                "after" => reading.set(&mut filter.after, name, id_of(text).map(Some)),
                other => reading.unknown(other, &["status", "queue", "limit", "after"]),
            }
        }
        reading.finish(filter)
    }

    /// The filter for the audit log.
    pub(crate) fn audit_filter(self) -> Result<AuditFilter, Problem> {
        let mut filter = AuditFilter::newest(DEFAULT_LIMIT);
        let mut reading = Reading::default();
        for (name, text) in self.given() {
            match name {
                "actor" => reading.set(&mut filter.actor, name, Ok(Some(text.to_owned()))),
                "action" => reading.set(&mut filter.action, name, Ok(Some(text.to_owned()))),
                "subject" => reading.set(&mut filter.subject, name, Ok(Some(text.to_owned()))),
                "limit" => reading.set(&mut filter.limit, name, limit_of(text)),
                "after" => reading.set(&mut filter.after, name, id_of(text).map(Some)),
                other => {
                    reading.unknown(other, &["actor", "action", "subject", "limit", "after"]);
                }
            }
        }
        reading.finish(filter)
    }

    /// The filter for the list of addresses that get nothing any more.
    pub(crate) fn suppression_filter(self) -> Result<SuppressionFilter, Problem> {
        let mut filter = SuppressionFilter {
            limit: DEFAULT_LIMIT,
            ..SuppressionFilter::default()
        };
        let mut reading = Reading::default();
        for (name, text) in self.given() {
            match name {
                "q" => reading.set(&mut filter.q, name, Ok(Some(text.to_lowercase()))),
                "owner" => reading.set(&mut filter.owner, name, Ok(Some(text.to_owned()))),
                "limit" => reading.set(&mut filter.limit, name, limit_of(text)),
                "after" => reading.set(&mut filter.after, name, place_of(text).map(Some)),
                other => reading.unknown(other, &["q", "owner", "limit", "after"]),
            }
        }
        reading.finish(filter)
    }

    /// Whose list is meant, and nothing else.
    pub(crate) fn owner(self) -> Result<Option<String>, Problem> {
        let mut reading = Reading::default();
        let mut owner = None;
        for (name, text) in self.given() {
            match name {
                "owner" => reading.set(&mut owner, name, Ok(Some(text.to_owned()))),
                other => reading.unknown(other, &["owner"]),
            }
        }
        reading.finish(owner)
    }

    /// How many entries of a list are asked for, and nothing else.
    pub(crate) fn limit(self) -> Result<usize, Problem> {
        let mut reading = Reading::default();
        let mut limit = DEFAULT_LIMIT;
        for (name, text) in self.given() {
            match name {
                "limit" => reading.set(&mut limit, name, limit_of(text)),
                other => reading.unknown(other, &["limit"]),
            }
        }
        reading.finish(limit)
    }

    /// Which version of something is asked for, and nothing else.
    pub(crate) fn version(self) -> Result<Option<u32>, Problem> {
        let mut reading = Reading::default();
        let mut version = None;
        for (name, text) in self.given() {
            let number = || {
                text.parse()
                    .map_err(|_| "must be a whole number".to_owned())
            };
            match name {
                "version" => reading.set(&mut version, name, number().map(Some)),
                other => reading.unknown(other, &["version"]),
            }
        }
        reading.finish(version)
    }

    /// Which way to look at something, where a page has several.
    pub(crate) fn view(&self) -> Option<&str> {
        self.given()
            .find(|(name, _)| *name == "view")
            .map(|(_, view)| view)
    }

    /// A parameter of a page, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut given = self.given();
        given
            .find(|(given, _)| *given == name)
            .map(|(_, text)| text)
    }

    /// What is given; a parameter without a value is as good as none.
    fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, text)| (name.as_str(), text.trim()))
            .filter(|(_, text)| !text.is_empty())
    }

    fn filter(
        self,
        owner: Option<&str>,
        with_status: bool,
        with_fingerprint: bool,
    ) -> Result<EmailFilter, Problem> {
        let mut filter = EmailFilter {
            owner: owner.map(str::to_owned),
            limit: DEFAULT_LIMIT,
            ..EmailFilter::default()
        };
        let mut reading = Reading::default();
        for (name, text) in self.given() {
            match name {
                "status" if with_status => {
                    reading.add(&mut filter.statuses, name, text);
                }
                "template" => reading.set(&mut filter.template, name, Ok(Some(text.to_owned()))),
                "to" => reading.set(&mut filter.to, name, Ok(Some(address_of(text)))),
                "q" => reading.set(&mut filter.q, name, Ok(Some(text.to_owned()))),
                "since" => reading.set(&mut filter.since, name, time_of(text).map(Some)),
                "limit" => reading.set(&mut filter.limit, name, limit_of(text)),
                "after" => reading.set(&mut filter.after, name, id_of(text).map(Some)),
                "fingerprint" if with_fingerprint => {
                    reading.set(&mut filter.fingerprint, name, Ok(Some(text.to_owned())));
                }
                other => {
                    let mut known = vec!["template", "to", "q", "since", "limit", "after"];
                    known.extend(with_status.then_some("status"));
                    known.extend(with_fingerprint.then_some("fingerprint"));
                    reading.unknown(other, &known);
                }
            }
        }
        reading.finish(filter)
    }
}

/// The form in which addresses are compared, if it is one.
pub(crate) fn address_of(text: &str) -> String {
    Mailbox::parse(text).map_or_else(|_| text.to_owned(), |mailbox| mailbox.address.folded())
}

/// A moment, or what is wrong with it.
pub(crate) fn time_of(text: &str) -> Result<Timestamp, String> {
    // A `+` in an address stands for a blank; there is none in a time.
    Timestamp::from_str(&text.replace(' ', "+"))
        .map_err(|_| "is not a time as of RFC 3339; write it as in 2026-11-15T18:30:00Z".to_owned())
}

fn limit_of(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|limit| (1..=LONGEST_LIST).contains(limit))
        .ok_or_else(|| format!("must be a whole number from 1 to {LONGEST_LIST}"))
}

fn id_of<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "must be the `next` of the page before".to_owned())
}

/// Collects what is wrong, so that the caller can mend it in one go.
#[derive(Default)]
struct Reading<'a> {
    seen: Vec<&'a str>,
    errors: Vec<FieldError>,
}

impl<'a> Reading<'a> {
    fn note(&mut self, field: &str, message: String) {
        self.errors.push(FieldError {
            field: field.to_owned(),
            message,
        });
    }

    fn set<T>(&mut self, place: &mut T, name: &'a str, value: Result<T, String>) {
        if self.seen.contains(&name) {
            self.note(name, "is given more than once".to_owned());
        }
        self.seen.push(name);
        match value {
            Ok(value) => *place = value,
            Err(message) => self.note(name, message),
        }
    }

    /// Adds what is given as `a,b`, once or several times.
    fn add<T>(&mut self, places: &mut Vec<T>, name: &str, text: &str)
    where
        T: FromStr<Err = UnknownName>,
    {
        for text in text.split(',').map(str::trim) {
            match text.parse() {
                Ok(value) => places.push(value),
                Err(error) => self.note(name, error.to_string()),
            }
        }
    }

    fn unknown(&mut self, name: &str, known: &[&str]) {
        let message = format!("is not a known parameter; known are {}", known.join(", "));
        self.note(name, message);
    }

    fn finish<T>(self, value: T) -> Result<T, Problem> {
        if self.errors.is_empty() {
            Ok(value)
        } else {
            Err(Problem::invalid_fields(self.errors))
        }
    }
}
