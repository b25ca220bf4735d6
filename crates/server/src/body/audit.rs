//! The audit log as it is shown.

use posthaste_core::port::AuditEntry;
use serde::Serialize;
use utoipa::ToSchema;

use super::Time;

/// What operators did, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    /// The entries.
    data: Vec<AuditBody>,
    /// Whether there are more: ask with a higher `limit`.
    has_more: bool,
}

/// One thing that was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditBody {
    /// When.
    at: Time,
    /// Who.
    #[schema(example = "key:1f2e3d4c")]
    actor: String,
    /// What.
    #[schema(example = "cancel")]
    action: String,
    /// To which email, message or key.
    subject: String,
    /// What came of it.
    result: String,
}

impl AuditPage {
    /// At most `limit` of these.
    pub(crate) fn of(mut entries: Vec<AuditEntry>, limit: usize) -> Self {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let body = |entry: AuditEntry| AuditBody {
            at: entry.at.into(),
            actor: entry.actor,
            action: entry.action,
            subject: entry.subject,
            result: entry.result,
        };
        Self {
            data: entries.into_iter().map(body).collect(),
            has_more,
        }
    }
}
