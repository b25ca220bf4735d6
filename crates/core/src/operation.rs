//! One action over many dead letters: those that were dead when it was made.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;
use crate::email::EmailId;
use crate::port::{Action, EmailFilter};
use crate::status::{Status, named};

/// The most emails per second that an operation may be asked for.
pub const FASTEST: u32 = 10_000;

/// The identity of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationId(pub Uuid);

impl OperationId {
    /// A new id.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for OperationId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

named! {
    /// What is done to each dead letter.
    BulkAction {
        /// Try it again now, with a fresh budget.
        Retry = "retry",
        /// Give up on it for good.
        Discard = "discard",
    }
}

impl BulkAction {
    /// The same for one email.
    #[must_use]
    pub const fn of_each(self) -> Action {
        match self {
            Self::Retry => Action::Retry,
            Self::Discard => Action::Discard,
        }
    }
}

named! {
    /// Where an operation is.
    OperationStatus {
        /// It goes on.
        Running = "running",
        /// An operator stopped it for now.
        Paused = "paused",
        /// An operator ended it; what was not done yet stays as it is.
        Cancelled = "cancelled",
        /// Every email was treated.
        Done = "done",
    }
}

impl OperationStatus {
    /// Whether nothing more happens.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Cancelled | Self::Done)
    }
}

named! {
    /// What an operator can do to an operation.
    OperationChange {
        /// Stop it for now.
        Pause = "pause",
        /// Go on.
        Resume = "resume",
        /// End it.
        Cancel = "cancel",
    }
}

impl OperationChange {
    /// Where the operation is after this; `None` if it does not allow it.
    #[must_use]
    pub const fn applied_to(self, status: OperationStatus) -> Option<OperationStatus> {
        use OperationStatus::{Cancelled, Done, Paused, Running};
        match (self, status) {
            (Self::Pause, Running | Paused) => Some(Paused),
            (Self::Resume, Running | Paused) => Some(Running),
            (Self::Cancel, Running | Paused | Cancelled) => Some(Cancelled),
            (Self::Pause | Self::Resume, Cancelled | Done) | (Self::Cancel, Done) => None,
        }
    }
}

/// Which dead letters. What is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadFilter {
    /// Only these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<EmailId>,
    /// Only those that died of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Only from this template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Only to this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// An id, a key, an exact address or the start of a subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Only accepted at or after this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl DeadFilter {
    /// The same as a filter for lists, for one owner or for all.
    #[must_use]
    pub fn emails(&self, owner: Option<&str>) -> EmailFilter {
        EmailFilter {
            owner: owner.map(str::to_owned),
            statuses: vec![Status::Dead],
            ids: self.ids.clone(),
            template: self.template.clone(),
            to: self.to.clone(),
            q: self.q.clone(),
            since: self.since,
            fingerprint: self.fingerprint.clone(),
            limit: 0,
            after: None,
        }
    }
}

/// An operation that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperation {
    /// Its identity.
    pub id: OperationId,
    /// What is done to each.
    pub action: BulkAction,
    /// To which.
    pub filter: DeadFilter,
    /// How many per second; `None` for as fast as it goes.
    pub rate_per_second: Option<u32>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its identity.
    pub id: OperationId,
    /// What is done to each.
    pub action: BulkAction,
    /// To which.
    pub filter: DeadFilter,
    /// How many per second; `None` for as fast as it goes.
    pub rate_per_second: Option<u32>,
    /// Where it is.
    pub status: OperationStatus,
    /// Who made it.
    pub actor: String,
    /// How many emails were dead when it was made.
    pub total: u64,
    /// How many were treated.
    pub done: u64,
    /// How many were not dead any more, or died anew, or could not be treated.
    pub skipped: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
}

impl Operation {
    /// How many are still to be treated.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.total.saturating_sub(self.done + self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_is_over_stays_so() {
        for change in OperationChange::ALL {
            assert_eq!(change.applied_to(OperationStatus::Done), None, "{change}");
        }
        let cancelled = OperationStatus::Cancelled;
        assert_eq!(OperationChange::Resume.applied_to(cancelled), None);
        assert_eq!(
            OperationChange::Cancel.applied_to(cancelled),
            Some(cancelled)
        );
    }

    #[test]
    fn an_empty_filter_is_an_empty_object() {
        let json = serde_json::to_string(&DeadFilter::default()).unwrap();
        assert_eq!(json, "{}");
        assert!(serde_json::from_str::<DeadFilter>(r#"{"finger":"x"}"#).is_err());
    }
}
