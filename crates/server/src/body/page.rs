//! One page of a list of emails.

use posthaste_engine::Operator;
use posthaste_engine::operator::Page;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::EmailBody;

/// One page of a list of emails, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmailPage {
    /// The emails, without their attempts.
    data: Vec<EmailBody>,
    /// Whether there are more.
    has_more: bool,
    /// What to give as `after` to get them.
    next: Option<Uuid>,
}

impl EmailPage {
    /// The page as it stands now.
    pub(crate) fn of(page: Page, operator: &Operator) -> Self {
        Self {
            has_more: page.next.is_some(),
            next: page.next.map(|id| id.0),
            data: page
                .emails
                .into_iter()
                .map(|email| EmailBody::of(email, operator))
                .collect(),
        }
    }
}
