//! Books of our own about each email, kept beside the store's: how many attempts counted, and when
//! the next one may begin. They follow from the policy alone, and so tell whether the engine keeps to
//! it (I7).

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Conclusion;
use posthaste_core::lifecycle::{Event, Resolution, State};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::{Phase, Status};

/// What we know of an email.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Counted attempts since the last replay.
    counted: u32,
    /// The next attempt must not begin before.
    not_before: Option<Timestamp>,
    /// Whether an operator had it sent again.
    pub(crate) is_replayed: bool,
    /// Whether an operator said that it arrived.
    pub(crate) is_vouched_for: bool,
}

impl Book {
    /// Follows an event; what is wrong with it, if something is.
    pub(super) fn keep(
        &mut self,
        before: &State,
        event: &Event<'_>,
        next: &State,
        policy: &RetryPolicy,
        expires: bool,
        now: Timestamp,
    ) -> Result<(), String> {
        let counts = u32::from(before.counts_attempt());
        match event {
            Event::Begin { .. } => return self.begin(now),
            Event::Finish { decision, .. } => {
                let is_late = before.status != Status::Sending;
                if is_late && before.phase == Phase::Committing {
                    self.counted -= counts;
                }
                if decision.outcome.is_counted() && !decision.is_free {
                    self.counted += counts;
                }
                self.conclude(&decision.conclusion, before, policy, expires, now)?;
            }
            Event::Settle(conclusion) => {
                self.conclude(conclusion, before, policy, expires, now)?;
            }
            Event::LeaseExpired => {
                let is_past_gate = before.phase == Phase::Committing;
                if before.status == Status::Sending && is_past_gate {
                    self.counted += counts;
                }
            }
            Event::Refund { .. } => self.counted -= 1,
            Event::Replay { .. } | Event::Resolve(Resolution::Retry) => {
                self.counted = 0;
                self.not_before = None;
                self.is_replayed = true;
            }
            Event::Resolve(Resolution::Sent) | Event::ResolveInPart(_) => {
                self.is_vouched_for = true;
            }
            _ => {}
        }
        let most = next.max_attempts.unwrap_or(policy.max_attempts);
        if self.counted > most {
            return Err(format!("has {} counted attempts of {most}", self.counted));
        }
        if self.counted != next.attempt_count {
            let counted = (next.attempt_count, self.counted);
            return Err(format!(
                "counts {} attempts, we count {}",
                counted.0, counted.1
            ));
        }
        Ok(())
    }

    /// An attempt begins.
    fn begin(&mut self, now: Timestamp) -> Result<(), String> {
        match self.not_before.take() {
            Some(at) if now < at => Err(format!("began {} too early", at.duration_since(now))),
            _ => Ok(()),
        }
    }

    /// An attempt ended so, after it was counted.
    fn conclude(
        &mut self,
        conclusion: &Conclusion,
        before: &State,
        policy: &RetryPolicy,
        expires: bool,
        now: Timestamp,
    ) -> Result<(), String> {
        let delay = match conclusion {
            Conclusion::Retry { delay, .. } => *delay,
            Conclusion::Park(parking) => parking.floor,
            _ => Duration::ZERO,
        };
        self.not_before = now.checked_add(delay).ok();
        let wanted = policy.backoff(self.counted + u32::from(before.inline));
        // What would come too late is tried a little earlier.
        let is_retry = matches!(conclusion, Conclusion::Retry { .. });
        if is_retry && !expires && delay < wanted {
            return Err(format!("waits {delay:?}, its policy says {wanted:?}"));
        }
        Ok(())
    }
}
