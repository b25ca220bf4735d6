//! A host whose clock is wrong, for tests.
//!
//! Compiled in only with debug assertions, as failpoints are: a release build has nothing of this.
//! `POSTHASTE_CLOCK_STEP` says by how many seconds the wall clock of this process is ahead; with a
//! minus, behind.

use uuid::Uuid;

use crate::Timestamp;

/// The wall time, as a host with that clock reads it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn stepped(now: Timestamp) -> Timestamp {
    now
}

/// An id that was just made, as a host with that clock makes it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn stepped_id(id: Uuid) -> Uuid {
    id
}

/// The wall time, as a host with that clock reads it.
#[cfg(debug_assertions)]
pub(crate) fn stepped(now: Timestamp) -> Timestamp {
    let step = jiff::SignedDuration::from_secs(seconds());
    now.checked_add(step).unwrap_or(now)
}

/// An id that was just made, as a host with that clock makes it.
#[cfg(debug_assertions)]
pub(crate) fn stepped_id(id: Uuid) -> Uuid {
    by(id, seconds())
}

#[cfg(debug_assertions)]
fn seconds() -> i64 {
    static SECONDS: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *SECONDS.get_or_init(|| {
        let step = std::env::var("POSTHASTE_CLOCK_STEP").ok();
        step.and_then(|step| step.parse().ok()).unwrap_or(0)
    })
}

/// The first 48 bits of such an id are the milliseconds since 1970.
#[cfg(debug_assertions)]
fn by(id: Uuid, seconds: i64) -> Uuid {
    const BELOW: u32 = 80;
    let (time, rest) = (id.as_u128() >> BELOW, id.as_u128() & ((1 << BELOW) - 1));
    let step = i128::from(seconds) * 1000;
    let time = time.saturating_add_signed(step) & ((1 << 48) - 1);
    Uuid::from_u128(time << BELOW | rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_host_that_is_ahead_is_later_and_otherwise_the_same() {
        let id = Uuid::now_v7();
        let millis = |id: Uuid| (id.as_u128() >> 80) as i64;
        assert_eq!(millis(by(id, 3600)) - millis(id), 3_600_000);
        assert_eq!(by(by(id, -86_400), 86_400), id);
        assert_eq!(by(id, 0), id);
        assert_eq!(by(id, 60).get_version_num(), 7);
    }
}
