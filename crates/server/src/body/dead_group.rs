//! Dead letters by what they died of.

use posthaste_core::port::DeadGroup;
use serde::Serialize;
use utoipa::ToSchema;

use super::Time;

/// Dead letters by what they died of, most first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadGroups {
    /// The groups.
    data: Vec<DeadGroupBody>,
}

/// Dead letters that died of the same thing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadGroup)]
pub(crate) struct DeadGroupBody {
    /// What they have in common; give it as `fingerprint` to list them.
    fingerprint: String,
    /// How many.
    count: u64,
    /// When the first died.
    first_seen: Time,
    /// When the last died.
    last_seen: Time,
    /// One of the errors, word for word.
    sample: String,
}

impl From<Vec<DeadGroup>> for DeadGroups {
    fn from(groups: Vec<DeadGroup>) -> Self {
        let body = |group: DeadGroup| DeadGroupBody {
            fingerprint: group.fingerprint,
            count: group.count,
            first_seen: group.first_seen.into(),
            last_seen: group.last_seen.into(),
            sample: group.sample,
        };
        Self {
            data: groups.into_iter().map(body).collect(),
        }
    }
}
