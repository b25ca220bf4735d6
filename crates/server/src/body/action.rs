//! What operators ask for, and what came of it.

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
    #[schema(example = "sent")]
    pub(crate) resolution: String,
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
