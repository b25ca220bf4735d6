//! An email as it is shown.

use std::collections::BTreeMap;

use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::email::{EmailRecord, PolicyChoice, Recipient};
use posthaste_engine::Operator;
use posthaste_engine::ways::DEFAULT_ROUTE;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Delivery, Time};

/// An email.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Email)]
pub(crate) struct EmailBody {
    /// Its id.
    id: Uuid,
    /// `pending`, `sending`, `sent`, `failed`, `retry_queued`, `unknown`, `dead`, `discarded` or
    /// `cancelled`.
    #[schema(example = "pending")]
    status: &'static str,
    /// What happens to it, in words for people.
    #[schema(example = "Retrying (attempt 2 of 8)")]
    status_text: String,
    /// The caller's key.
    message_key: String,
    /// Whose it is.
    owner: String,
    /// The sender.
    from: String,
    /// The recipients in the To header.
    to: Vec<String>,
    /// The subject.
    subject: String,
    /// The template it was rendered from.
    template: Option<String>,
    /// `high`, `normal` or `low`.
    #[schema(example = "normal")]
    priority: &'static str,
    /// `queued`, or `inline` if its caller waited for the first attempt, which is not counted.
    #[schema(example = "queued")]
    delivery: &'static str,
    /// The caller's own data.
    metadata: BTreeMap<String, String>,
    /// How many attempts failed since it was accepted or last replayed.
    attempt_count: u32,
    /// How many may fail.
    max_attempts: u32,
    /// When the next attempt may begin.
    next_attempt_at: Option<Time>,
    /// The route that it takes.
    #[schema(example = "default")]
    route: String,
    /// What it waits for without spending attempts, if it does: a way out that is stopped, paused
    /// or full (`smtp`), a domain by it (`smtp@example.net`), or one of several (`smtp,backup`).
    #[schema(example = json!(null))]
    waiting_for: Option<String>,
    /// What went wrong last.
    last_error: Option<String>,
    /// The rule that classified it.
    error_class: Option<String>,
    /// Why it is dead.
    dead_reason: Option<&'static str>,
    /// Groups dead letters that died of the same thing.
    fingerprint: Option<String>,
    /// Whether a second copy may have left.
    possible_duplicate: bool,
    /// When the server accepted it.
    sent_at: Option<Time>,
    /// When it was accepted here.
    created_at: Time,
    /// Not to be sent before.
    send_at: Option<Time>,
    /// Not to be sent after.
    expires_at: Option<Time>,
    /// When its ticket was last published.
    last_queued_at: Option<Time>,
    /// When it reached its last state.
    finished_at: Option<Time>,
    /// When its content was erased.
    erased_at: Option<Time>,
    /// The size of the MIME message in octets.
    size_bytes: u64,
    /// Where each recipient stands, when there is more than one.
    recipients: Option<Vec<RecipientBody>>,
    /// The name of its retry policy, or a policy of its own.
    #[schema(value_type = super::new_email::PolicyChoice)]
    retry_policy: PolicyChoice,
}

/// An email with its attempts.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmailDetail {
    #[serde(flatten)]
    email: EmailBody,
    /// Every attempt so far.
    attempts: Vec<AttemptBody>,
}

/// One recipient of an email.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recipient)]
pub(crate) struct RecipientBody {
    /// Its address.
    address: String,
    /// `waiting`, `accepted` or `dead`.
    #[schema(example = "accepted")]
    status: &'static str,
    /// The last reply or error about it.
    detail: Option<String>,
}

/// One attempt to send an email.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptBody {
    /// 1, 2, 3 … for ever.
    number: u32,
    /// When a sender began.
    started_at: Time,
    /// When its end was recorded.
    finished_at: Time,
    /// `sent`, `transient`, `permanent`, `unknown`, `lost` or `cancelled`.
    #[schema(example = "transient")]
    outcome: &'static str,
    /// The rule that classified the failure.
    error_class: Option<String>,
    /// What went wrong.
    error: Option<String>,
    /// How far the conversation had got when it failed.
    #[schema(example = "rcpt")]
    stage: Option<&'static str>,
    /// The server's reply, word for word.
    reply: Option<String>,
    /// Which way out was used.
    transport: Option<String>,
    /// Which worker did it.
    worker: Option<String>,
    /// What the provider calls the message that it took.
    provider_id: Option<String>,
    /// Whether it spends one of the email's attempts: not if it failed by no fault of the email's.
    counted: bool,
    /// The earliest moment at which the next attempt might begin, if one was to follow.
    next_attempt_at: Option<Time>,
}

impl EmailBody {
    /// The email as it stands now.
    pub(crate) fn of(email: EmailRecord, operator: &Operator) -> Self {
        let max_attempts = operator.max_attempts(&email);
        let status_text = email.status_text(max_attempts, operator.now());
        let state = email.state;
        let delivery = if state.inline {
            Delivery::Inline
        } else {
            Delivery::Queued
        };
        Self {
            id: email.id.0,
            status: state.status.as_str(),
            status_text,
            message_key: email.message_key,
            owner: email.owner,
            from: email.summary.from,
            to: email.summary.to,
            subject: email.summary.subject,
            template: email.template,
            priority: email.priority.as_str(),
            delivery: delivery.as_str(),
            metadata: email.metadata,
            attempt_count: state.attempt_count,
            max_attempts,
            next_attempt_at: state.next_attempt_at.map(Time),
            route: email.route.unwrap_or_else(|| DEFAULT_ROUTE.to_owned()),
            waiting_for: state.waiting_for,
            last_error: state.last_error,
            error_class: state.error_class,
            dead_reason: state.dead_reason.map(|reason| reason.as_str()),
            fingerprint: state.fingerprint,
            possible_duplicate: state.possible_duplicate,
            sent_at: state.sent_at.map(Time),
            created_at: Time(email.created_at),
            send_at: email.send_at.map(Time),
            expires_at: email.expires_at.map(Time),
            last_queued_at: state.last_queued_at.map(Time),
            finished_at: state.finished_at.map(Time),
            erased_at: email.erased_at.map(Time),
            size_bytes: email.size_bytes,
            recipients: (email.recipients.len() > 1)
                .then(|| email.recipients.into_iter().map(recipient).collect()),
            retry_policy: email.policy,
        }
    }
}

impl EmailDetail {
    /// The email as it stands now, with its attempts.
    #[must_use]
    pub fn of(mut email: EmailRecord, operator: &Operator) -> Self {
        let attempts = std::mem::take(&mut email.attempts);
        let inline = email.state.inline;
        let attempts = attempts.into_iter().map(|one| {
            let is_inline = inline && one.number == 1;
            attempt(one, is_inline)
        });
        Self {
            attempts: attempts.collect(),
            email: EmailBody::of(email, operator),
        }
    }
}

fn recipient(recipient: Recipient) -> RecipientBody {
    RecipientBody {
        address: recipient.address.to_string(),
        status: recipient.status.as_str(),
        detail: recipient.detail,
    }
}

/// One attempt. `is_inline`: its caller waited for it, so it is not counted.
fn attempt(attempt: AttemptRecord, is_inline: bool) -> AttemptBody {
    AttemptBody {
        number: attempt.number,
        started_at: Time(attempt.started_at),
        finished_at: Time(attempt.finished_at),
        outcome: attempt.outcome.as_str(),
        error_class: attempt.error_class,
        error: attempt.error,
        stage: attempt.stage.map(Stage::as_str),
        reply: attempt.reply,
        transport: attempt.transport,
        worker: attempt.worker,
        provider_id: attempt.provider_id,
        counted: attempt.outcome.is_counted() && !attempt.is_free && !is_inline,
        next_attempt_at: attempt.next_attempt_at.map(Time),
    }
}
