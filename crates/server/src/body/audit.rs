//! The audit log as it is shown.

use posthaste_core::port::AuditEntry;
use serde::Serialize;
use utoipa::ToSchema;

use super::Time;

/// One page of what operators did, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    /// The entries.
    data: Vec<AuditBody>,
    /// Whether there are more.
    has_more: bool,
    /// What to give as `after` to get them.
    next: Option<String>,
}

/// One thing that was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditBody {
    /// Its number: later entries have greater ones.
    number: i64,
    /// When.
    at: Time,
    /// Who.
    #[schema(example = "key:1f2e3d4c")]
    actor: String,
    /// What.
    #[schema(example = "cancel")]
    action: String,
    /// To which email, message, key, template, operation or admin.
    subject: String,
    /// Which emails it was meant for, where it was for many.
    filter: Option<String>,
    /// How many it was about, where it was for many.
    count: Option<u64>,
    /// What came of it.
    result: String,
}

impl AuditPage {
    /// These entries, after which others may come.
    pub(crate) fn of(entries: Vec<AuditEntry>, next: Option<i64>) -> Self {
        let body = |entry: AuditEntry| AuditBody {
            number: entry.number,
            at: entry.at.into(),
            actor: entry.actor,
            action: entry.action,
            subject: entry.subject,
            filter: entry.filter,
            count: entry.count,
            result: entry.result,
        };
        Self {
            has_more: next.is_some(),
            next: next.map(|number| number.to_string()),
            data: entries.into_iter().map(body).collect(),
        }
    }
}
