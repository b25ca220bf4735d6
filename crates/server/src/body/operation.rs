//! One action over many dead letters, as it is asked for and as it is shown.

use std::str::FromStr;

use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    BulkAction, DeadFilter, FASTEST, NewOperation, Operation, OperationId,
};
use posthaste_engine::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Time;
use crate::json::{List, Object};
use crate::query::{address_of, time_of};

/// The most emails that a filter may name one by one.
pub(crate) const MOST_IDS: usize = 1_000;

/// An action over many dead letters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewOperation)]
pub(crate) struct NewOperationBody {
    /// `retry` (try again now, with a fresh budget) or `discard` (give up for good).
    #[schema(value_type = ActionName)]
    action: String,
    /// To which dead letters. `{}` means all of them.
    #[schema(value_type = DeadFilterBody)]
    filter: Object<DeadFilterBody>,
    /// Only count them, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// How many per second, up to 10000; as fast as it goes if left out.
    #[schema(example = 100, minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// What is done to dead letters.
#[derive(ToSchema)]
#[schema(as = BulkAction, rename_all = "lowercase")]
#[allow(dead_code)]
enum ActionName {
    Retry,
    Discard,
}

/// Which dead letters. What is left out does not matter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadLetterFilter)]
pub(crate) struct DeadFilterBody {
    /// Only these.
    #[schema(value_type = Option<Vec<Uuid>>, min_items = 1, max_items = 1000)]
    ids: Option<List<String, MOST_IDS>>,
    /// Only those that died of this; see `GET /v1/dead-letters/groups`.
    fingerprint: Option<String>,
    /// Only from this template.
    template: Option<String>,
    /// Only to this address.
    to: Option<String>,
    /// An id, a key, an exact address or the start of a subject.
    q: Option<String>,
    /// Only accepted at or after this moment (RFC 3339).
    #[schema(format = DateTime)]
    since: Option<String>,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The operation.
    pub(crate) new: NewOperation,
    /// Whether it is only to be counted.
    pub(crate) dry_run: bool,
}

impl NewOperationBody {
    /// What it asks for, or everything that is wrong with it.
    pub(crate) fn wanted(self) -> Result<Wanted, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut note = |field: &str, message: String| {
            errors.push(FieldError {
                field: field.to_owned(),
                message,
            });
        };
        let action = BulkAction::from_str(&self.action);
        if action.is_err() {
            note("action", "must be `retry` or `discard`".to_owned());
        }
        if let Err(message) = check_rate(self.rate_per_second) {
            note("rate_per_second", message);
        }
        let filter = self.filter.0.read(&mut note);
        match action {
            Ok(action) if errors.is_empty() => Ok(Wanted {
                new: NewOperation {
                    id: OperationId::generate(),
                    action,
                    filter,
                    rate_per_second: self.rate_per_second,
                },
                dry_run: self.dry_run,
            }),
            _ => Err(errors),
        }
    }
}

/// Whether a pace is one that can be asked for.
pub(crate) fn check_rate(rate: Option<u32>) -> Result<(), String> {
    match rate {
        Some(rate) if !(1..=FASTEST).contains(&rate) => {
            Err(format!("must be from 1 to {FASTEST}, or left out"))
        }
        _ => Ok(()),
    }
}

impl DeadFilterBody {
    fn read(self, note: &mut impl FnMut(&str, String)) -> DeadFilter {
        // An empty list is a mistake, and the worst one to take for "all".
        if self.ids.as_ref().is_some_and(|ids| ids.0.is_empty()) {
            let message = "names no email; leave it out if they do not matter";
            note("filter.ids", message.to_owned());
        }
        let given = self.ids.unwrap_or_default().0;
        let mut ids = Vec::with_capacity(given.len());
        for (at, text) in given.iter().enumerate() {
            match text.parse::<EmailId>() {
                Ok(id) => ids.push(id),
                Err(_) => note(
                    &format!("filter.ids[{at}]"),
                    "is not the id of an email".to_owned(),
                ),
            }
        }
        let since = self.since.and_then(|text| {
            let read = time_of(&text);
            read.map_err(|message| note("filter.since", message)).ok()
        });
        DeadFilter {
            ids,
            fingerprint: self.fingerprint,
            template: self.template,
            to: self.to.map(|text| address_of(&text)),
            q: self.q,
            since,
        }
    }
}

/// How many dead letters an operation would be about.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DryRun {
    /// Always `true`: nothing was changed.
    pub(crate) dry_run: bool,
    /// What would be done to each.
    #[schema(example = "retry")]
    pub(crate) action: &'static str,
    /// How many dead letters match right now.
    pub(crate) count: u64,
}

/// Operations, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationPage {
    /// The operations.
    data: Vec<OperationBody>,
    /// Whether there are more: ask with a higher `limit`.
    has_more: bool,
}

impl OperationPage {
    /// At most `limit` of these.
    pub(crate) fn of(mut operations: Vec<Operation>, limit: usize) -> Self {
        let has_more = operations.len() > limit;
        operations.truncate(limit);
        Self {
            data: operations.into_iter().map(Into::into).collect(),
            has_more,
        }
    }
}

/// An operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Operation)]
pub struct OperationBody {
    /// Its identity.
    id: Uuid,
    /// What is done to each.
    #[schema(example = "retry")]
    action: &'static str,
    /// To which dead letters, as it was given.
    #[schema(value_type = Object)]
    filter: DeadFilter,
    /// `running`, `paused`, `cancelled` or `done`.
    #[schema(example = "running")]
    status: &'static str,
    /// How many emails were dead when it was made.
    total: u64,
    /// How many were treated.
    done: u64,
    /// How many were left as they are: not dead any more, died anew, erased or expired.
    skipped: u64,
    /// How many are still to be treated; of a cancelled one, how many it left as they are.
    remaining: u64,
    /// How many per second; `null` for as fast as it goes.
    rate_per_second: Option<u32>,
    /// Who made it.
    #[schema(example = "key:1f2e3d4c")]
    created_by: String,
    /// When it was made.
    created_at: Time,
    /// When it was over.
    finished_at: Option<Time>,
}

impl From<Operation> for OperationBody {
    fn from(operation: Operation) -> Self {
        Self {
            id: operation.id.0,
            action: operation.action.as_str(),
            status: operation.status.as_str(),
            total: operation.total,
            done: operation.done,
            skipped: operation.skipped,
            remaining: operation.remaining(),
            rate_per_second: operation.rate_per_second,
            created_at: operation.created_at.into(),
            finished_at: operation.finished_at.map(Into::into),
            filter: operation.filter,
            created_by: operation.actor,
        }
    }
}
