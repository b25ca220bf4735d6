//! How often and when an email is tried again.

use std::time::Duration;

use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy as Policy};

/// The name under which an outbox's policy is kept with its emails.
pub(crate) const NAME: &str = "outbox";

/// How often and when an email is tried again.
///
/// The attempt that [`send_or_enqueue`](crate::Outbox::send_or_enqueue) makes at once is not
/// counted; what comes after it is.
///
/// ```
/// use std::time::Duration;
/// use posthaste::RetryPolicy;
///
/// // The default: 30 seconds after a failure, then twice as long each time; 5 attempts.
/// let patient = RetryPolicy::default().attempts(8);
/// // Or at times of your own; the last one repeats.
/// let own = RetryPolicy::schedule([Duration::from_secs(60), Duration::from_secs(3600)])
///     .attempts(10)
///     .jitter(Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct RetryPolicy(pub(crate) Policy);

impl Default for RetryPolicy {
    /// 30 seconds, 1, 2, 4 and 8 minutes after the failures before; 5 attempts.
    fn default() -> Self {
        Self(Policy::outbox())
    }
}

impl RetryPolicy {
    /// So long after the first failure, and twice as long after each one that follows.
    pub fn doubling(first: Duration) -> Self {
        let Policy { backoff, .. } = Policy::outbox();
        let backoff = match backoff {
            Backoff::Exponential { factor, cap, .. } => Backoff::Exponential {
                base: first.into(),
                factor,
                cap,
            },
            other @ Backoff::Schedule { .. } => other,
        };
        Self(Policy {
            backoff,
            ..Policy::outbox()
        })
    }

    /// After these times, one for each failure; the last one repeats.
    pub fn schedule(delays: impl IntoIterator<Item = Duration>) -> Self {
        let schedule = delays.into_iter().map(Into::into).collect();
        Self(Policy {
            backoff: Backoff::Schedule { schedule },
            ..Policy::outbox()
        })
    }

    /// How many attempts may fail before the email is given up.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.0.max_attempts = attempts;
        self
    }

    /// Waits up to so much longer each time, at random, so that many do not come at once.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.0.jitter = jitter.into();
        self
    }

    /// What may have been sent, because the server's last answer was lost, is not sent again:
    /// it waits for someone to decide. Otherwise it is sent once more, marked as a possible
    /// duplicate.
    pub fn hold_uncertain(mut self) -> Self {
        self.0.on_unknown = OnUnknown::Hold;
        self
    }
}
