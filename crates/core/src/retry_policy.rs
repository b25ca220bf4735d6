//! How often and when a failed email is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::{HumanDuration, LONGEST};
use crate::status::named;

/// The most attempts any policy may grant.
pub const MOST_ATTEMPTS: u32 = 100;
/// The longest single delay between two attempts.
pub const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);

named! {
    /// What happens to an email whose fate after the final dot is not known.
    OnUnknown {
        /// Send it again, byte for byte the same, marked as a possible duplicate.
        Resend = "resend",
        /// Leave it to late proof or an operator.
        Hold = "hold",
    }
}

/// The delays between attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Backoff {
    /// The n-th failed attempt waits for the n-th entry; the last entry repeats.
    Schedule {
        /// The delays in order.
        schedule: Vec<HumanDuration>,
    },
    /// The n-th failed attempt waits `base × factor^(n-1)`, at most `cap`.
    Exponential {
        /// The first delay.
        base: HumanDuration,
        /// What each further delay is multiplied with.
        #[serde(default = "doubling")]
        factor: f64,
        /// The longest delay.
        #[serde(default = "longest_delay")]
        cap: HumanDuration,
    },
}

const fn doubling() -> f64 {
    2.0
}

const fn longest_delay() -> HumanDuration {
    HumanDuration(LONGEST_DELAY)
}

/// How often and when a failed email is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts may fail before the email is dead.
    pub max_attempts: u32,
    /// The delays between attempts.
    pub backoff: Backoff,
    /// A random time up to this is added to each delay, so that retries do not come in herds.
    #[serde(default)]
    pub jitter: HumanDuration,
    /// What happens after a lost reply.
    #[serde(default = "resend")]
    pub on_unknown: OnUnknown,
    /// How many times an uncertain email is sent again by itself.
    #[serde(default = "one")]
    pub max_unknown_resends: u32,
    /// An email that could not be sent for this long after it was accepted is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<HumanDuration>,
}

const fn resend() -> OnUnknown {
    OnUnknown::Resend
}

const fn one() -> u32 {
    1
}

/// What is wrong with a policy, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidPolicy {
    /// The field within the policy.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

impl RetryPolicy {
    fn with_schedule(max_attempts: u32, seconds: &[u64], jitter_seconds: u64) -> Self {
        let schedule = seconds
            .iter()
            .map(|s| HumanDuration(Duration::from_secs(*s)))
            .collect();
        Self::new(max_attempts, Backoff::Schedule { schedule }, jitter_seconds)
    }

    fn with_doubling(max_attempts: u32, base: u64, cap: Duration, jitter_seconds: u64) -> Self {
        let base = HumanDuration(Duration::from_secs(base));
        let backoff = Backoff::Exponential {
            base,
            factor: doubling(),
            cap: HumanDuration(cap),
        };
        Self::new(max_attempts, backoff, jitter_seconds)
    }

    fn new(max_attempts: u32, backoff: Backoff, jitter_seconds: u64) -> Self {
        Self {
            max_attempts,
            backoff,
            jitter: HumanDuration(Duration::from_secs(jitter_seconds)),
            on_unknown: resend(),
            max_unknown_resends: one(),
            expire_after: None,
        }
    }

    /// `email`, the default of emails (seeds 000 and 001).
    #[must_use]
    pub fn email() -> Self {
        let seconds = [
            MINUTE,
            5 * MINUTE,
            15 * MINUTE,
            HOUR,
            3 * HOUR,
            6 * HOUR,
            12 * HOUR,
            24 * HOUR,
        ];
        Self::with_schedule(8, &seconds, 0)
    }

    /// `notification`, the default of templates (seed 003).
    #[must_use]
    pub fn notification() -> Self {
        Self::with_schedule(3, &[MINUTE, 5 * MINUTE, 15 * MINUTE], 30)
    }

    /// `outbox`, for embedding with an inline first try that is not counted (seed 004).
    #[must_use]
    pub fn outbox() -> Self {
        Self::with_doubling(5, 30, LONGEST_DELAY, 0)
    }

    /// `message`, for the message lane (seed 002).
    #[must_use]
    pub fn message() -> Self {
        Self::with_doubling(3, 2, Duration::from_secs(MINUTE), 1)
    }

    /// The built-in policies by name.
    #[must_use]
    pub fn built_in() -> [(&'static str, Self); 4] {
        [
            ("email", Self::email()),
            ("notification", Self::notification()),
            ("outbox", Self::outbox()),
            ("message", Self::message()),
        ]
    }

    /// The time to wait after the `failed`-th failed attempt (1 for the first), without jitter.
    #[must_use]
    pub fn backoff(&self, failed: u32) -> Duration {
        let index = failed.saturating_sub(1);
        let delay = match &self.backoff {
            Backoff::Schedule { schedule } => {
                let last = schedule.len().saturating_sub(1);
                let entry = schedule.get((index as usize).min(last));
                entry.map_or(LONGEST_DELAY, |entry| entry.0)
            }
            Backoff::Exponential { base, factor, cap } => {
                // Computed in floating point, where an overflow is infinity and the cap wins.
                let exponent = i32::try_from(index).unwrap_or(i32::MAX);
                let seconds = base.0.as_secs_f64() * factor.powi(exponent);
                if seconds.is_nan() || seconds >= cap.0.as_secs_f64() {
                    cap.0
                } else {
                    Duration::from_secs_f64(seconds.max(0.0))
                }
            }
        };
        delay.min(LONGEST_DELAY)
    }

    /// The time to wait after the `failed`-th failed attempt. `random` in 0..1 picks the jitter;
    /// `floor` is the earliest moment the server allows.
    #[must_use]
    pub fn delay(&self, failed: u32, random: f64, floor: Option<Duration>) -> Duration {
        let jitter = self
            .jitter
            .0
            .min(LONGEST_DELAY)
            .mul_f64(random.clamp(0.0, 1.0));
        let delay = self.backoff(failed).saturating_add(jitter);
        delay.max(floor.unwrap_or_default().min(LONGEST_DELAY))
    }

    /// Checks what the types cannot.
    pub fn validate(&self) -> Result<(), InvalidPolicy> {
        let invalid = |field, message: String| Err(InvalidPolicy { field, message });
        if !(1..=MOST_ATTEMPTS).contains(&self.max_attempts) {
            return invalid("max_attempts", format!("must be from 1 to {MOST_ATTEMPTS}"));
        }
        match &self.backoff {
            Backoff::Schedule { schedule } if schedule.is_empty() => {
                return invalid(
                    "backoff.schedule",
                    "needs at least one delay, such as [\"1m\"]".into(),
                );
            }
            Backoff::Schedule { schedule } => {
                if schedule.iter().any(|entry| entry.0 > LONGEST_DELAY) {
                    return invalid("backoff.schedule", "no delay may be longer than 30d".into());
                }
                if schedule.len() > MOST_ATTEMPTS as usize {
                    return invalid(
                        "backoff.schedule",
                        format!("has more than {MOST_ATTEMPTS} delays"),
                    );
                }
            }
            Backoff::Exponential { base, factor, cap } => {
                if base.0.is_zero() {
                    return invalid("backoff.base", "must be longer than 0s".into());
                }
                if !(1.0..=100.0).contains(factor) {
                    return invalid("backoff.factor", "must be from 1 to 100".into());
                }
                if cap.0 > LONGEST_DELAY {
                    return invalid("backoff.cap", "may not be longer than 30d".into());
                }
            }
        }
        if self.jitter.0 > LONGEST_DELAY {
            return invalid("jitter", "may not be longer than 30d".into());
        }
        if self.max_unknown_resends > MOST_ATTEMPTS {
            return invalid(
                "max_unknown_resends",
                format!("may not be more than {MOST_ATTEMPTS}"),
            );
        }
        if self
            .expire_after
            .is_some_and(|after| after.0.is_zero() || after.0 > LONGEST)
        {
            return invalid("expire_after", "must be longer than 0s".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(policy: &RetryPolicy, count: u32) -> Vec<u64> {
        (1..=count).map(|n| policy.backoff(n).as_secs()).collect()
    }

    #[test]
    fn the_built_in_policies_wait_as_the_contract_says() {
        let email = RetryPolicy::email();
        assert_eq!(
            seconds(&email, 10),
            [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 86400, 86400]
        );
        assert_eq!((email.max_attempts, email.jitter.0), (8, Duration::ZERO));

        let notification = RetryPolicy::notification();
        assert_eq!(seconds(&notification, 4), [60, 300, 900, 900]);
        assert_eq!(
            (notification.max_attempts, notification.jitter.0.as_secs()),
            (3, 30)
        );

        // Tries at T+30, 90, 210, 450 and 930 seconds.
        let mut at = 0;
        let tries = seconds(&RetryPolicy::outbox(), 5).into_iter().map(|delay| {
            at += delay;
            at
        });
        assert_eq!(tries.collect::<Vec<_>>(), [30, 90, 210, 450, 930]);

        // `message` uses the received retry count: count 0 is the first failure.
        assert_eq!(
            seconds(&RetryPolicy::message(), 7),
            [2, 4, 8, 16, 32, 60, 60]
        );
        assert_eq!(RetryPolicy::message().jitter.0.as_secs(), 1);
    }

    #[test]
    fn the_built_in_policies_are_valid() {
        for (name, policy) in RetryPolicy::built_in() {
            assert_eq!(policy.validate(), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_policy_is_written_as_the_contract_shows_it() {
        let json = r#"{"max_attempts":5,"backoff":{"schedule":["1m","5m"]},"jitter":"30s","on_unknown":"hold","max_unknown_resends":0}"#;
        let policy: RetryPolicy = serde_json::from_str(json).unwrap();
        assert_eq!(policy.on_unknown, OnUnknown::Hold);
        assert_eq!(serde_json::to_string(&policy).unwrap(), json);
        let json = r#"{"max_attempts":5,"backoff":{"base":"30s","factor":2.0,"cap":"1h"}}"#;
        let policy: RetryPolicy = serde_json::from_str(json).unwrap();
        assert_eq!(policy.backoff(9), Duration::from_secs(3600));
    }

    #[test]
    fn invalid_policies_name_the_field() {
        let cases: [(&str, &str); 7] = [
            (
                r#"{"max_attempts":0,"backoff":{"schedule":["1m"]}}"#,
                "max_attempts",
            ),
            (
                r#"{"max_attempts":101,"backoff":{"schedule":["1m"]}}"#,
                "max_attempts",
            ),
            (
                r#"{"max_attempts":1,"backoff":{"schedule":[]}}"#,
                "backoff.schedule",
            ),
            (
                r#"{"max_attempts":1,"backoff":{"schedule":["31d"]}}"#,
                "backoff.schedule",
            ),
            (
                r#"{"max_attempts":1,"backoff":{"base":"0s"}}"#,
                "backoff.base",
            ),
            (
                r#"{"max_attempts":1,"backoff":{"base":"1s","factor":0.5}}"#,
                "backoff.factor",
            ),
            (
                r#"{"max_attempts":1,"backoff":{"base":"1s","cap":"40d"}}"#,
                "backoff.cap",
            ),
        ];
        for (json, field) in cases {
            let policy: RetryPolicy = serde_json::from_str(json).unwrap();
            assert_eq!(policy.validate().unwrap_err().field, field, "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_delay_never_overflows_and_never_undercuts_backoff_or_floor(
            failed in any::<u32>(),
            random in 0.0..1.0f64,
            base in 1u64..=u64::from(u32::MAX),
            factor in 1.0..100.0f64,
            jitter in any::<u32>(),
            floor in proptest::option::of(any::<u64>()),
        ) {
            let mut policy = RetryPolicy::with_doubling(3, base, LONGEST_DELAY, u64::from(jitter));
            if let Backoff::Exponential { factor: f, .. } = &mut policy.backoff { *f = factor; }
            let floor = floor.map(Duration::from_secs);
            let delay = policy.delay(failed, random, floor);
            prop_assert!(delay >= policy.backoff(failed));
            prop_assert!(delay >= floor.unwrap_or_default().min(LONGEST_DELAY));
            prop_assert!(delay <= LONGEST_DELAY * 2);
        }

        #[test]
        fn backoff_never_shrinks_as_attempts_fail(failed in 1u32..500) {
            for (name, policy) in RetryPolicy::built_in() {
                prop_assert!(policy.backoff(failed + 1) >= policy.backoff(failed), "{}", name);
            }
        }
    }
}
