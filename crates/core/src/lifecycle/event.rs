//! What can happen to an email, and why it may change nothing.

use std::time::Duration;

use crate::decision::{Conclusion, Decision, Parking};
use crate::status::{DeadReason, Status, named};

named! {
    /// How an operator resolves an email of unknown fate.
    Resolution {
        /// It arrived.
        Sent = "sent",
        /// Send it again.
        Retry = "retry",
        /// Give it up.
        Dead = "dead",
    }
}

/// What can happen to an email.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A sender takes it.
    Begin {
        /// Who.
        worker: &'a str,
        /// For how long.
        lease: Duration,
    },
    /// Its sender has nothing else in hand any more, as an email needs over which workers died.
    Prepare {
        /// The lease.
        token: i64,
    },
    /// Its sender keeps it.
    Renew {
        /// The lease.
        token: i64,
        /// For how long from now.
        lease: Duration,
    },
    /// Its sender is about to send the final dot.
    Gate {
        /// The lease.
        token: i64,
        /// Which way out is used.
        transport: &'a str,
    },
    /// Its sender is done.
    Finish {
        /// The lease.
        token: i64,
        /// How the attempt ended.
        decision: &'a Decision,
        /// Which way out was used, if one was.
        transport: Option<&'a str>,
        /// How many attempts may fail, as things stand.
        budget: u32,
    },
    /// Its sender found no way out that is free. Nothing was tried.
    Park {
        /// The lease.
        token: i64,
        /// Where it waits.
        parking: &'a Parking,
    },
    /// A way out for which it waits is free again, and takes it.
    Unpark {
        /// For how long.
        lease: Duration,
        /// The policy's present maximum.
        budget: u32,
    },
    /// The attempt of this number turned out to have failed by no fault of the email's.
    Refund {
        /// Which attempt.
        number: u32,
    },
    /// Its sender hands it back, unsent.
    Release {
        /// The lease.
        token: i64,
    },
    /// A scheduler takes it because it is due; `budget` is its policy's present maximum.
    ClaimDue {
        /// For how long.
        lease: Duration,
        /// The policy's present maximum.
        budget: u32,
    },
    /// Its ticket was published.
    Queued {
        /// As it was when the ticket was made.
        token: i64,
    },
    /// Its ticket could not be published, or the scheduler that held it is gone.
    Unqueued {
        /// As it was when the ticket was made.
        token: i64,
    },
    /// Nobody renewed its lease.
    LeaseExpired,
    /// The policy decided about its unknown fate.
    Settle(&'a Conclusion),
    /// The caller withdraws it.
    Cancel,
    /// An operator wants it tried again, with a fresh budget.
    Replay {
        /// Whether it is sent even if it is too late.
        ignores_expiry: bool,
    },
    /// A provider said later what became of it, for all of its recipients.
    Feedback {
        /// What became of it.
        feedback: Feedback,
        /// What the provider said, for people.
        detail: Option<&'a str>,
    },
    /// An operator resolves its unknown fate.
    Resolve(Resolution),
    /// An operator knows that it arrived, but one of its recipients had been given up before.
    ResolveInPart(DeadReason),
    /// An operator gives up on it for good.
    Discard,
    /// An operator takes that back.
    Restore,
    /// It became too late to be of use.
    Expire,
}

/// What a provider says later of an email that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// It arrived at every recipient of whom anything is known.
    Delivered,
    /// It was given back, or complained about, by one of them at least.
    Refused(DeadReason),
}

/// Why an event changes nothing. Expected in daily operation; not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lease is no longer the current one.
    #[error("another attempt holds the lease")]
    StaleToken,
    /// It is over for this email.
    #[error("the email is already {0}")]
    AlreadyFinished(Status),
    /// Someone else is at it.
    #[error("the email is being sent right now")]
    InProgress,
    /// It is not time yet.
    #[error("the email is not due yet")]
    NotDue,
    /// The state does not allow it.
    #[error("it is {0}, which does not allow that")]
    NotAllowed(Status),
}
