//! What operators ask for, and what came of it.

use posthaste_core::port::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// How to settle an email of unknown fate.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Resolve)]
pub(crate) struct ResolveBody {
    /// `sent` (it arrived), `retry` (send it again) or `dead` (give it up).
    #[serde(rename = "as")]
    #[schema(value_type = ResolutionName)]
    pub(crate) resolution: String,
}

/// How an unknown fate is settled.
#[derive(ToSchema)]
#[schema(as = Resolution, rename_all = "lowercase")]
#[allow(dead_code)]
enum ResolutionName {
    Sent,
    Retry,
    Dead,
}

/// How to try an email again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Retry)]
pub(crate) struct RetryBody {
    /// Whether it is to be sent although its `expires_at` is over.
    #[serde(default)]
    pub(crate) even_if_expired: bool,
}

impl RetryBody {
    /// What is to be done.
    pub(crate) const fn action(&self) -> Action {
        if self.even_if_expired {
            Action::RetryExpired
        } else {
            Action::Retry
        }
    }
}

/// What came of what a provider said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Feedback)]
pub(crate) struct FeedbackBody {
    /// How many words changed something.
    pub(crate) recorded: usize,
    /// How many were known already, or something graver was.
    pub(crate) unchanged: usize,
    /// How many were about no email of ours.
    pub(crate) not_ours: usize,
}

/// What came of an action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Acted)]
pub(crate) struct ActedBody {
    /// Which email or message.
    id: Uuid,
    /// Where it is in its life now.
    #[schema(example = "cancelled")]
    status: &'static str,
    /// Whether the action changed something: doing it twice does it once.
    changed: bool,
}

impl ActedBody {
    pub(crate) const fn new(id: Uuid, status: &'static str, changed: bool) -> Self {
        Self {
            id,
            status,
            changed,
        }
    }
}
