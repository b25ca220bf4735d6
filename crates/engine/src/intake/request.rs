//! What a caller asks for, and the checks that turn it into an email.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use memchr::memchr;
use posthaste_core::Timestamp;
use posthaste_core::address::{Address, Mailbox};
use posthaste_core::duration::HumanDuration;
use posthaste_core::email::{EmailId, Envelope, NewEmail, PolicyChoice, Summary};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::Priority;
use serde::Serialize;

use super::Submitter;
use super::calendar::{self, Calendar};
use super::digest;
use super::field_check::Findings;
use super::mime::{self, Attachment, Parts};
use super::rejected::Rejected;
use super::templated::{Defaults, Wanted};
use crate::Policies;
use crate::ways::DEFAULT_ROUTE;

const MOST_RECIPIENTS: usize = 1_000;
const LONGEST_SUBJECT: usize = 1_000;
const LONGEST_HEADER: usize = 2_000;
const MOST_HEADERS: usize = 100;
const LONGEST_CONTENT_ID: usize = 255;
const LONGEST_KEY: usize = 255;
const MOST_METADATA: usize = 100;
const LARGEST_METADATA_BYTES: usize = 16 * 1024;
/// Nothing is scheduled further away than this.
const FURTHEST: jiff::SignedDuration = jiff::SignedDuration::from_hours(366 * 24);

/// What is wrong with one field, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field as it is written, for example `to[1]`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// A file that goes along.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AttachmentRequest {
    /// Its name.
    pub filename: String,
    /// Its type; `application/octet-stream` if left out.
    pub content_type: Option<String>,
    /// Its bytes in base64.
    #[serde(serialize_with = "digest::of_body")]
    pub content: String,
    /// For HTML that shows it inline as `cid:…`.
    pub content_id: Option<String>,
}

/// A calendar invitation that goes along.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CalendarRequest {
    /// The iCalendar object: one VCALENDAR, with a METHOD of its own.
    #[serde(serialize_with = "calendar::without_stamp")]
    pub content: String,
    /// The same METHOD: `REQUEST`, `CANCEL` and so on.
    pub method: String,
}

/// Which retry policy is wanted.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum PolicyRequest {
    /// One by name.
    Named(String),
    /// One of its own.
    Own(Box<RetryPolicy>),
}

/// What a caller asks for. What is not given has no part in its digest, which most of it is not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EmailRequest {
    /// The idempotency key. Not part of the content.
    #[serde(skip)]
    pub message_key: Option<String>,
    /// The sender.
    pub from: String,
    /// The recipients.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Recipients of a copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    /// Recipients of a copy whom the others do not see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    /// Where answers go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<String>,
    /// The subject.
    pub subject: String,
    /// The text body.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "digest::of_body_if_any"
    )]
    pub text: Option<String>,
    /// The HTML body.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "digest::of_body_if_any"
    )]
    pub html: Option<String>,
    /// A template to render instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What the template needs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, serde_json::Value>,
    /// Further headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentRequest>,
    /// An invitation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarRequest>,
    /// Not before, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_at: Option<String>,
    /// Not after, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Not later than this time after it may be sent, as in `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<String>,
    /// Which retry policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<PolicyRequest>,
    /// Which route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// `high`, `normal` or `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// The caller's own data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The W3C trace context. Not part of the content.
    #[serde(skip)]
    pub traceparent: Option<String>,
}

impl EmailRequest {
    /// Checks everything and builds the MIME message, or says all that is wrong.
    pub(super) fn check(
        mut self,
        submitter: &Submitter,
        policies: &Policies,
        template: Option<Wanted>,
        now: Timestamp,
    ) -> Result<NewEmail, Rejected> {
        let mut findings = Findings::default();
        // Of the request as it was given, before a template fills it in. Also without a key: the answer
        // names one, under which the same may come again.
        let payload_hash = digest::of(&self);
        let defaults = template
            .map(|template| self.fill_in(template, &mut findings))
            .unwrap_or_default();
        let id = EmailId::generate();
        let message_key = self
            .check_key(&mut findings)
            .unwrap_or_else(|| id.to_string());
        let from = self.check_from(submitter, &mut findings);
        let to = mailboxes("to", &self.to, &mut findings);
        let cc = mailboxes("cc", &self.cc, &mut findings);
        let bcc = mailboxes("bcc", &self.bcc, &mut findings);
        let reply_to = mailboxes("reply_to", &self.reply_to, &mut findings);
        let recipients = recipients([&to, &cc, &bcc]);
        if self.to.is_empty() && self.cc.is_empty() && self.bcc.is_empty() {
            findings.note("to", "has no recipient; give at least one in to, cc or bcc");
        }
        if recipients.len() > MOST_RECIPIENTS {
            findings.note(
                "to",
                format!("has more than {MOST_RECIPIENTS} recipients; split the email"),
            );
        }
        findings.check_line("subject", &self.subject, LONGEST_SUBJECT);
        self.check_body(&mut findings);
        self.check_headers(&mut findings);
        let attachments = self.check_attachments(&mut findings);
        let calendar = self
            .calendar
            .as_ref()
            .and_then(|given| Calendar::check(given, &mut findings));
        let (send_at, expires_at) = self.check_times(now, &mut findings);
        let expire_after = self.check_expiry(&mut findings);
        let policy = self.check_policy(policies, &defaults, &mut findings);
        let route = self.route.clone().or_else(|| defaults.route.clone());
        if let Some(message) = self
            .route
            .as_deref()
            .and_then(|name| policies.unknown_route(name))
        {
            findings.note("route", message);
        }
        let priority = match &self.priority {
            Some(text) => findings
                .check("priority", text.parse())
                .unwrap_or(Priority::Normal),
            None => defaults.priority,
        };
        self.check_metadata(&mut findings);
        let errors = findings.into_errors();
        let (Some(from), true) = (from, errors.is_empty()) else {
            return Err(Rejected::invalid(self.message_key, payload_hash, errors));
        };

        let max_attempts = match &policy {
            PolicyChoice::Own(own) => Some(own.max_attempts),
            PolicyChoice::Named(_) => None,
        };
        let expires_at = expires_at.or_else(|| {
            let after = expire_after.or(policies.of(&policy).expire_after)?;
            send_at.unwrap_or(now).checked_add(after.0).ok()
        });
        let content = mime::build(&Parts {
            id,
            now,
            from: &from,
            to: &to,
            cc: &cc,
            reply_to: &reply_to,
            subject: &self.subject,
            text: self.text.as_deref(),
            html: self.html.as_deref(),
            headers: &self.headers,
            attachments: &attachments,
            calendar: calendar.as_ref(),
        });
        Ok(NewEmail {
            id,
            owner: submitter.owner.clone(),
            message_key,
            payload_hash,
            template: self.template,
            priority,
            envelope: Envelope {
                from: from.address.clone(),
                recipients,
            },
            summary: Summary {
                from: from.to_string(),
                to: to.iter().map(ToString::to_string).collect(),
                subject: self.subject,
            },
            content: Bytes::from(content),
            metadata: self.metadata,
            policy,
            max_attempts,
            route: route.filter(|name| name != DEFAULT_ROUTE),
            send_at,
            expires_at,
            traceparent: self.traceparent,
        })
    }

    fn check_key(&self, findings: &mut Findings) -> Option<String> {
        let key = self.message_key.as_ref()?;
        if key.is_empty() {
            findings.note(
                "message_key",
                "is empty; leave it out, or give a text that is unique per logical email",
            );
        }
        if key.len() > LONGEST_KEY {
            findings.note(
                "message_key",
                format!(
                    "has {} octets, at most {LONGEST_KEY} are allowed",
                    key.len()
                ),
            );
        }
        if key.chars().any(char::is_control) {
            findings.note("message_key", "contains a control character; remove it");
        }
        Some(key.clone())
    }

    fn check_from(&self, submitter: &Submitter, findings: &mut Findings) -> Option<Mailbox> {
        let from = findings.check("from", Mailbox::parse(&self.from))?;
        let allowed = &submitter.from_addresses;
        if !allowed.is_empty()
            && !allowed
                .iter()
                .any(|one| one.eq_ignore_ascii_case(from.address.as_str()))
        {
            findings.note(
                "from",
                format!("may only be {} with this API key", allowed.join(" or ")),
            );
        }
        Some(from)
    }

    fn check_body(&self, findings: &mut Findings) {
        if self.template.is_none() {
            if !self.variables.is_empty() {
                findings.note("variables", "are only of use together with a template");
            } else if self.text.is_none() && self.html.is_none() && self.calendar.is_none() {
                findings.note("text", "is missing; give text, html or both");
            }
        }
        for (field, body) in [("text", &self.text), ("html", &self.html)] {
            let nul = body.as_ref().and_then(|body| memchr(0, body.as_bytes()));
            if nul.is_some() {
                findings.note(field, "contains a NUL character; remove it");
            }
        }
    }

    fn check_headers(&self, findings: &mut Findings) {
        if self.headers.len() > MOST_HEADERS {
            findings.note("headers", format!("has more than {MOST_HEADERS} entries"));
        }
        for (name, value) in &self.headers {
            let field = format!("headers.{}", name.escape_debug());
            let is_token = !name.is_empty()
                && name.len() <= 76
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !is_token {
                findings.note(
                    &field,
                    "is not a header name: use letters, digits and hyphens",
                );
            } else if mime::is_owned_header(name) {
                findings.note(
                    &field,
                    "is set by Posthaste; use the field of the request that it belongs to",
                );
            }
            findings.check_line(&field, value, LONGEST_HEADER);
        }
    }

    fn check_attachments(&self, findings: &mut Findings) -> Vec<Attachment> {
        let mut attachments = Vec::with_capacity(self.attachments.len());
        for (index, given) in self.attachments.iter().enumerate() {
            let field = |name: &str| format!("attachments[{index}].{name}");
            findings.check_line(&field("filename"), &given.filename, 255);
            if given.filename.trim().is_empty() {
                findings.note(field("filename"), "is empty");
            }
            let content_type = given
                .content_type
                .clone()
                .unwrap_or_else(|| "application/octet-stream".into());
            if !mime::is_content_type(&content_type) {
                findings.note(
                    field("content_type"),
                    "is not a media type such as application/pdf",
                );
            }
            if let Some(id) = &given.content_id
                && (id.is_empty()
                    || id.len() > LONGEST_CONTENT_ID
                    || !id
                        .bytes()
                        .all(|b| b.is_ascii_graphic() && !b"<>\"\\".contains(&b)))
            {
                findings.note(
                    field("content_id"),
                    "must be 1 to 255 characters of printable ASCII without < > \" \\ and blanks",
                );
            }
            let decoded = BASE64
                .decode(given.content.trim())
                .map_err(|error| format!("is not base64: {error}"));
            if let Some(content) = findings.check(field("content"), decoded) {
                attachments.push(Attachment {
                    filename: given.filename.clone(),
                    content_type,
                    content,
                    content_id: given.content_id.clone(),
                });
            }
        }
        attachments
    }

    fn check_times(
        &self,
        now: Timestamp,
        findings: &mut Findings,
    ) -> (Option<Timestamp>, Option<Timestamp>) {
        let mut time = |field: &str, text: &Option<String>| {
            let parsed: Result<Timestamp, _> = text.as_ref()?.parse().map_err(|_| {
                "is not a time as of RFC 3339; write it as in 2026-11-15T18:30:00Z".to_owned()
            });
            let at = findings.check(field, parsed)?;
            if at > now.checked_add(FURTHEST).unwrap_or(Timestamp::MAX) {
                findings.note(field, "is more than a year away");
            }
            Some(at)
        };
        let send_at = time("send_at", &self.send_at);
        let expires_at = time("expires_at", &self.expires_at);
        if let Some(expires_at) = expires_at {
            if expires_at <= now {
                findings.note("expires_at", "is in the past");
            } else if send_at.is_some_and(|send_at| expires_at <= send_at) {
                findings.note("expires_at", "must be later than send_at");
            }
        }
        // What was to be sent in the past is sent now.
        (send_at.filter(|at| *at > now), expires_at)
    }

    fn check_expiry(&self, findings: &mut Findings) -> Option<HumanDuration> {
        let text = self.expire_after.as_ref()?;
        if self.expires_at.is_some() {
            findings.note(
                "expire_after",
                "stands beside expires_at; leave out one of them",
            );
        }
        let after: HumanDuration = findings.check("expire_after", text.parse())?;
        if after.0.is_zero() || after.0 > FURTHEST.unsigned_abs() {
            findings.note("expire_after", "must be longer than 0s and at most a year");
        }
        Some(after)
    }

    fn check_policy(
        &self,
        policies: &Policies,
        defaults: &Defaults,
        findings: &mut Findings,
    ) -> PolicyChoice {
        match &self.retry_policy {
            None => defaults.policy.clone(),
            Some(PolicyRequest::Named(name)) => {
                if let Some(message) = policies.unknown(name) {
                    findings.note("retry_policy", message);
                }
                PolicyChoice::Named(name.clone())
            }
            Some(PolicyRequest::Own(policy)) => {
                if let Err(error) = policy.validate() {
                    findings.note(format!("retry_policy.{}", error.field), error.message);
                }
                PolicyChoice::Own(policy.clone())
            }
        }
    }

    fn check_metadata(&self, findings: &mut Findings) {
        let size: usize = self
            .metadata
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if self.metadata.len() > MOST_METADATA || size > LARGEST_METADATA_BYTES {
            let most = LARGEST_METADATA_BYTES / 1024;
            findings.note(
                "metadata",
                format!("has more than {MOST_METADATA} entries or {most} KiB"),
            );
        }
        if self
            .metadata
            .iter()
            .any(|(key, value)| key.contains('\0') || value.contains('\0'))
        {
            findings.note("metadata", "contains a NUL character; remove it");
        }
    }
}

fn mailboxes(field: &str, texts: &[String], findings: &mut Findings) -> Vec<Mailbox> {
    texts
        .iter()
        .enumerate()
        .filter_map(|(index, text)| match Mailbox::parse(text) {
            Ok(mailbox) => Some(mailbox),
            Err(error) => {
                findings.note(format!("{field}[{index}]"), error.to_string());
                None
            }
        })
        .collect()
}

/// Everyone, each once.
fn recipients(lists: [&Vec<Mailbox>; 3]) -> Vec<Address> {
    let all = lists.into_iter().flatten().map(|mailbox| &mailbox.address);
    let mut all: Vec<Address> = all.cloned().collect();
    if all.len() > 1 {
        let mut seen = std::collections::HashSet::with_capacity(all.len());
        all.retain(|address| seen.insert(address.folded()));
    }
    all
}
