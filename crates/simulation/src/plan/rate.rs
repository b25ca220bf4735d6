//! How often each fault strikes, in so many of a thousand cases.

use std::time::Duration;

use crate::random::Random;

/// A rate that is nothing in half of the runs, and high in some.
const fn rate(random: &mut Random, high: u64) -> u64 {
    match random.below(8) {
        0..4 => 0,
        4..7 => 1 + random.below(high / 4),
        _ => 1 + random.below(high),
    }
}

/// What goes wrong at the store.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreRates {
    /// It fails, and nothing was changed.
    pub(crate) fails: u64,
    /// It commits, and the answer is lost.
    pub(crate) loses_answer: u64,
    /// It takes its time, before or after the commit.
    pub(crate) is_slow: u64,
    /// How long at most, in milliseconds.
    pub(crate) slowness: u64,
    /// Others are not told of what changed.
    pub(crate) silent: u64,
}

impl StoreRates {
    pub(super) const fn draw(random: &mut Random) -> Self {
        Self {
            fails: rate(random, 200),
            loses_answer: rate(random, 200),
            is_slow: rate(random, 200),
            slowness: random.between(50, 5_000),
            silent: rate(random, 1000),
        }
    }
}

/// What goes wrong at the broker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrokerRates {
    /// A ticket is confirmed and lost.
    pub(crate) loses: u64,
    /// It is refused.
    pub(crate) refuses: u64,
    /// It is delivered twice.
    pub(crate) doubles: u64,
    /// It comes late.
    pub(crate) delays: u64,
    /// It comes before those that were there before it.
    pub(crate) reorders: u64,
    /// Its acknowledgement is lost: it comes again.
    pub(crate) forgets: u64,
}

impl BrokerRates {
    pub(super) const fn draw(random: &mut Random) -> Self {
        Self {
            loses: rate(random, 1000),
            refuses: rate(random, 400),
            doubles: rate(random, 600),
            delays: rate(random, 600),
            reorders: rate(random, 600),
            forgets: rate(random, 400),
        }
    }
}

/// What goes wrong at the mail server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MailRates {
    /// It takes no connection.
    pub(crate) refuses_connection: u64,
    /// It does not answer, at any stage before the dot.
    pub(crate) hangs: u64,
    /// It says 4xx, before or after the dot.
    pub(crate) defers: u64,
    /// It says 5xx.
    pub(crate) rejects: u64,
    /// It refuses some recipients.
    pub(crate) mixes: u64,
    /// It hangs up before the dot.
    pub(crate) drops_before: u64,
    /// It hangs up after the dot, and may have taken the message.
    pub(crate) drops_after: u64,
    /// It never answers the dot, and may have taken the message.
    pub(crate) hangs_after: u64,
    /// It takes its time.
    pub(crate) is_slow: u64,
    /// How long at most, in milliseconds; longer than a lease.
    pub(crate) slowness: u64,
}

impl MailRates {
    pub(super) fn draw(lease: Duration, random: &mut Random) -> Self {
        let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        Self {
            refuses_connection: rate(random, 500),
            hangs: rate(random, 300),
            defers: rate(random, 600),
            rejects: rate(random, 200),
            mixes: rate(random, 600),
            drops_before: rate(random, 400),
            drops_after: rate(random, 400),
            hangs_after: rate(random, 300),
            is_slow: rate(random, 500),
            slowness: random.between(100, lease * 2),
        }
    }
}
