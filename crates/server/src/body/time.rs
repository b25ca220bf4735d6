//! Moments on the wire: RFC 3339, UTC, microseconds.

use posthaste_core::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// A moment (RFC 3339, UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-15T18:30:00.000000Z")]
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}
