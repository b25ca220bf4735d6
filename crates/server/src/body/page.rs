//! One page of a list.

use posthaste_core::Timestamp;
use posthaste_engine::Operator;
use posthaste_engine::messages;
use posthaste_engine::operator::Page;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{EmailBody, MessageBody};

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

/// One page of a list of messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessagePage {
    /// The messages, without their payloads.
    data: Vec<MessageBody>,
    /// Whether there are more.
    has_more: bool,
    /// What to give as `after` to get them.
    next: Option<String>,
}

impl MessagePage {
    /// The page as it stands now.
    pub(crate) fn of(page: messages::MessagePage, now: Timestamp) -> Self {
        Self {
            has_more: page.next.is_some(),
            next: page.next.map(|number| number.to_string()),
            data: page
                .messages
                .into_iter()
                .map(|message| MessageBody::of(message, now))
                .collect(),
        }
    }
}
