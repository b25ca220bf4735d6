//! What goes over the wire: the shapes of requests and answers, and nothing else.

mod action;
mod audit;
mod dead_group;
mod email;
mod new_email;
mod page;
mod retry_policy;
mod statistics;
mod time;

pub(crate) use self::action::{ActedBody, ResolveBody};
pub(crate) use self::audit::AuditPage;
pub(crate) use self::dead_group::DeadGroups;
pub(crate) use self::email::EmailBody;
pub use self::email::EmailDetail;
pub(crate) use self::new_email::{AcceptedBody, BatchAnswer, BatchBody, BatchEntry, NewEmailBody};
pub(crate) use self::page::EmailPage;
pub(crate) use self::statistics::{StatisticsBody, oldest_waiting_seconds};
pub(crate) use self::time::Time;
