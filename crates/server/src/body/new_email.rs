//! An email as callers hand it in, and what they get for it.

use posthaste_core::status::Status;
use posthaste_engine::EmailRequest;
use posthaste_engine::intake::{AttachmentRequest, CalendarRequest, Delivered, FieldError, Taken};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Time;
use super::retry_policy::{PolicyBody, RetryPolicyBody};
use crate::json::{Addresses, List, Object, StrictMap, Variables};
use crate::problem::Problem;

/// The most emails in one batch.
pub(crate) const MOST_IN_BATCH: usize = 1_000;

/// An email to be sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEmail, example = json!({
    "message_key": "order-4711-confirmation",
    "from": "Shop <shop@example.org>",
    "to": ["Ann <ann@example.org>"],
    "subject": "Your order",
    "text": "Thank you for your order.",
}))]
pub(crate) struct NewEmailBody {
    /// Makes it safe to send the request again: one key, one email. Also as the header
    /// `Idempotency-Key`.
    #[schema(max_length = 255, example = "order-4711-confirmation")]
    message_key: Option<String>,
    /// The sender, as `address` or `Name <address>`. May be left out if the template has one.
    #[schema(example = "Shop <shop@example.org>")]
    from: Option<String>,
    /// The recipients: one or a list.
    #[serde(default)]
    #[schema(value_type = AddressList)]
    to: Addresses,
    /// Recipients of a copy.
    #[serde(default)]
    #[schema(value_type = Option<AddressList>)]
    cc: Addresses,
    /// Recipients of a copy whom the others do not see.
    #[serde(default)]
    #[schema(value_type = Option<AddressList>)]
    bcc: Addresses,
    /// Where answers go.
    #[serde(default)]
    #[schema(value_type = Option<AddressList>)]
    reply_to: Addresses,
    /// The subject. Counts more than that of the template.
    #[schema(max_length = 1000, example = "Your order")]
    subject: Option<String>,
    /// The text body. Give text, html or both.
    #[schema(example = "Thank you for your order.")]
    text: Option<String>,
    /// The HTML body.
    html: Option<String>,
    /// A template to make it from, instead of text and html. It also says the priority, the route
    /// and the retry policy, unless they are given.
    template: Option<String>,
    /// What the template needs.
    #[schema(value_type = Option<Object>)]
    variables: Option<Variables>,
    /// Further headers.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    headers: Option<StrictMap<String>>,
    /// Files that go along.
    #[schema(value_type = Option<Vec<AttachmentBody>>)]
    attachments: Option<List<Object<AttachmentBody>, 1_000>>,
    /// A calendar invitation that goes along.
    #[schema(value_type = Option<CalendarBody>)]
    calendar: Option<Object<CalendarBody>>,
    /// Not to be sent before (RFC 3339).
    #[schema(format = DateTime)]
    send_at: Option<String>,
    /// Not to be sent after (RFC 3339).
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Instead of `expires_at`: not to be sent later than this long after it may be, as in `10m`.
    #[schema(example = "10m")]
    expire_after: Option<String>,
    /// Which of the configured routes it takes; the template's if left out, or `default`.
    #[schema(example = "default")]
    route: Option<String>,
    /// The name of a retry policy, or a policy of its own.
    #[schema(value_type = Option<PolicyChoice>)]
    retry_policy: Option<PolicyBody>,
    /// `high`, `normal` (default) or `low`; the template's if left out.
    #[schema(value_type = Option<PriorityName>, inline)]
    priority: Option<String>,
    /// Data of your own, given back with the email.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    metadata: Option<StrictMap<String>>,
    /// `queued` (default): answered when it is durable. `inline`: tried at once, and answered with
    /// what became of it. If that try fails, it is tried again as any other email, and the first
    /// try is not counted. Not with `send_at` in the future, and not in a batch.
    #[schema(value_type = Option<Delivery>, inline)]
    delivery: Option<String>,
}

/// Whether the caller waits for the first attempt. It is how an email is sent, not what it is: the
/// same email again is the same, whichever way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Delivery {
    /// It is sent when its turn comes.
    Queued,
    /// It is tried at once, and the caller waits for what becomes of it.
    Inline,
}

impl Delivery {
    /// How it is written.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Inline => "inline",
        }
    }

    /// What was written; queued if nothing was.
    fn parse(written: Option<&str>) -> Result<Self, FieldError> {
        match written {
            None | Some("queued") => Ok(Self::Queued),
            Some("inline") => Ok(Self::Inline),
            Some(other) => Err(FieldError {
                field: "delivery".into(),
                message: format!("`{other}` is not one of: queued, inline"),
            }),
        }
    }
}

/// Whose turn comes first.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[allow(dead_code)]
pub(crate) enum PriorityName {
    High,
    Normal,
    Low,
}

/// One address or a list, each as `address` or `Name <address>`.
#[derive(ToSchema)]
#[schema(example = "Ann <ann@example.org>")]
#[allow(dead_code)]
#[serde(untagged)]
pub(crate) enum AddressList {
    One(String),
    Many(Vec<String>),
}

/// The name of a retry policy, or a policy of its own.
#[derive(ToSchema)]
#[schema(example = "email")]
#[allow(dead_code)]
#[serde(untagged)]
pub(crate) enum PolicyChoice {
    Named(String),
    Own(RetryPolicyBody),
}

/// A file that goes along.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Attachment)]
pub(crate) struct AttachmentBody {
    /// Its name.
    #[schema(max_length = 255, example = "invoice.pdf")]
    filename: String,
    /// Its media type; `application/octet-stream` if left out.
    #[schema(example = "application/pdf")]
    content_type: Option<String>,
    /// Its bytes in base64.
    #[schema(example = "JVBERi0=")]
    content: String,
    /// For HTML that shows it inline as `cid:…`.
    content_id: Option<String>,
}

/// A calendar invitation that goes along.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Calendar)]
pub(crate) struct CalendarBody {
    /// The iCalendar object.
    content: String,
    /// `REQUEST`, `CANCEL` and so on.
    #[schema(example = "REQUEST")]
    method: String,
}

impl NewEmailBody {
    /// The caller's key, where it is given in the body.
    pub(crate) const fn message_key_mut(&mut self) -> &mut Option<String> {
        &mut self.message_key
    }

    /// What the engine is asked for, and how it is to be sent.
    pub(crate) fn into_request(
        self,
        traceparent: Option<String>,
    ) -> Result<(EmailRequest, Delivery), Vec<FieldError>> {
        let mut errors = Vec::new();
        let delivery = Delivery::parse(self.delivery.as_deref()).unwrap_or_else(|error| {
            errors.push(error);
            Delivery::Queued
        });
        let retry_policy = match self.retry_policy.map(PolicyBody::into_request).transpose() {
            Ok(policy) => policy,
            Err(found) => {
                errors.extend(found);
                None
            }
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        let attachments = self.attachments.unwrap_or_default().0;
        let request = EmailRequest {
            message_key: self.message_key,
            from: self.from.unwrap_or_default(),
            to: self.to.0,
            cc: self.cc.0,
            bcc: self.bcc.0,
            reply_to: self.reply_to.0,
            subject: self.subject.unwrap_or_default(),
            text: self.text,
            html: self.html,
            template: self.template,
            variables: self.variables.unwrap_or_default().0,
            headers: self.headers.map(|map| map.0).unwrap_or_default(),
            attachments: attachments.into_iter().map(attachment).collect(),
            calendar: self.calendar.map(|Object(calendar)| CalendarRequest {
                content: calendar.content,
                method: calendar.method,
            }),
            send_at: self.send_at,
            expires_at: self.expires_at,
            expire_after: self.expire_after,
            route: self.route,
            retry_policy,
            priority: self.priority,
            metadata: self.metadata.map(|map| map.0).unwrap_or_default(),
            traceparent,
        };
        Ok((request, delivery))
    }
}

fn attachment(Object(body): Object<AttachmentBody>) -> AttachmentRequest {
    AttachmentRequest {
        filename: body.filename,
        content_type: body.content_type,
        content: body.content,
        content_id: body.content_id,
    }
}

/// An email that was accepted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(crate) struct AcceptedBody {
    /// Its id.
    id: Uuid,
    /// Where it is in its life.
    #[schema(example = "pending")]
    status: &'static str,
    /// Its key.
    message_key: String,
    /// Of one that was to be sent at once: when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Time>,
    /// Of one that was to be sent at once: why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "HardBounce")]
    dead_reason: Option<&'static str>,
    /// Of one that was to be sent at once: what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl AcceptedBody {
    /// Whether the mail server has it.
    pub(crate) fn is_sent(&self) -> bool {
        self.status == Status::Sent.as_str()
    }

    /// The answer about one that was to be sent at once, and whether the same was accepted before.
    pub(crate) fn delivered(delivered: Delivered) -> (Self, bool) {
        let body = Self {
            id: delivered.id.0,
            status: delivered.status.as_str(),
            message_key: delivered.message_key,
            next_attempt_at: delivered.next_attempt_at.map(Time),
            dead_reason: delivered.dead_reason.map(|reason| reason.as_str()),
            last_error: delivered.last_error,
        };
        (body, delivered.is_replayed)
    }

    /// The answer, and whether the same was accepted before.
    pub(crate) fn of(taken: Taken) -> (Self, bool) {
        let (id, message_key, status, replayed) = match taken {
            Taken::Accepted { id, message_key } => (id, message_key, Status::Pending, false),
            Taken::Replayed {
                id,
                message_key,
                status,
            } => (id, message_key, status, true),
        };
        let body = Self {
            id: id.0,
            status: status.as_str(),
            message_key,
            next_attempt_at: None,
            dead_reason: None,
            last_error: None,
        };
        (body, replayed)
    }
}

/// Emails to be sent. Each stands for itself: one that is wrong spoils no other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch)]
pub(crate) struct BatchBody<'a> {
    /// The emails, at most 1000.
    #[serde(borrow)]
    #[schema(value_type = Vec<NewEmailBody>, min_items = 1, max_items = 1000)]
    pub(crate) emails: List<&'a RawValue, MOST_IN_BATCH>,
}

/// What became of the emails of a batch.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    /// One entry per email, in their order.
    pub(crate) data: Vec<BatchEntry>,
}

/// What became of one email of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BatchEntry {
    /// It was accepted, now or before.
    Accepted(AcceptedBody),
    /// It was refused.
    Refused {
        /// What is wrong with it.
        error: Problem,
    },
}
