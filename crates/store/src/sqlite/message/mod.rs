//! Messages of other services. One writer, so one message after the other.

mod act;
mod claim;
mod count;
mod list;
mod prune;
mod row;
mod schedule;
pub(super) mod verify;

pub(super) use self::claim::{DUE, NEXT_DUE, NEXT_UNCLAIMED};
pub(super) use self::count::OLDEST_DUE;
