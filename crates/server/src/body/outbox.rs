//! Seed 004's view of emails, with its names: `pending` is not yet delivered, `failed` is dead.

use posthaste_core::email::EmailRecord;
use posthaste_core::status::Status;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Time;

/// An email that is not delivered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OutboxEntry)]
pub(crate) struct OutboxEntryBody {
    /// Its id.
    id: Uuid,
    /// Whom it goes to: the first of them.
    to_address: String,
    /// Its subject.
    subject: String,
    /// `pending` or `failed`.
    #[schema(example = "pending")]
    status: &'static str,
    /// How many attempts failed since the last fresh start.
    attempts: u32,
    /// How many may.
    max_attempts: u32,
    /// When it is tried next, if it is.
    next_retry_at: Option<Time>,
    /// What went wrong last.
    last_error: Option<String>,
    /// When it was accepted.
    created_at: Time,
}

impl OutboxEntryBody {
    /// The email as seed 004 sees it.
    pub(crate) fn of(email: EmailRecord, max_attempts: u32) -> Self {
        let state = email.state;
        let is_failed = state.status == Status::Dead;
        let first = email.recipients.first();
        Self {
            id: email.id.0,
            to_address: first
                .map(|first| first.address.to_string())
                .unwrap_or_default(),
            subject: email.summary.subject,
            status: if is_failed { "failed" } else { "pending" },
            attempts: state.attempt_count,
            max_attempts,
            next_retry_at: state.next_attempt_at.map(Time),
            last_error: state.last_error,
            created_at: Time(email.created_at),
        }
    }
}

/// The numbers of seed 004's dashboard.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Dashboard)]
pub(crate) struct DashboardBody {
    /// How many emails are not delivered yet.
    pub(crate) pending_email_count: u64,
    /// How many are dead.
    pub(crate) failed_email_count: u64,
}
