//! What goes over the wire: the shapes of requests and answers, and nothing else.

mod action;
mod audit;
mod dead_group;
mod email;
mod message;
mod new_email;
mod operation;
mod outbox;
mod page;
mod properties;
mod retry_policy;
mod statistics;
mod suppression;
mod template;
mod time;
mod timeline;
mod transport;

pub(crate) use self::action::{ActedBody, FeedbackBody, ResolveBody, RetryBody};
pub(crate) use self::audit::AuditPage;
pub(crate) use self::dead_group::DeadGroups;
pub(crate) use self::email::EmailBody;
pub use self::email::EmailDetail;
pub use self::message::{MessageBody, MessageDetail};
pub(crate) use self::new_email::{
    AcceptedBody, BatchAnswer, BatchBody, BatchEntry, Delivery, NewEmailBody,
};
pub use self::operation::OperationBody;
pub(crate) use self::operation::{DryRun, NewOperationBody, OperationPage, check_rate};
pub(crate) use self::outbox::{DashboardBody, OutboxEntryBody};
pub(crate) use self::page::{EmailPage, MessagePage};
pub(crate) use self::statistics::{
    StatisticsBody, messages_by_status, seconds_since, success_rate,
};
pub(crate) use self::suppression::{
    LONGEST_DETAIL, NewSuppressionBody, SuppressionBody, SuppressionPageBody, place, place_of,
};
pub(crate) use self::template::{
    TemplateContentBody, TemplateDetail, TemplateList, TemplatePreview, TemplatePreviewBody,
    TemplateVersions,
};
pub(crate) use self::time::Time;
pub(crate) use self::timeline::{PolicyList, Timeline, TimelineRequest};
pub(crate) use self::transport::{TransportBody, TransportList, is_paused, is_troubled, state_of};
