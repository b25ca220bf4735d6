//! How far each field of a retry policy may go: to its limit, and no step further.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::duration::{HumanDuration, LONGEST};
use posthaste_core::retry_policy::{Backoff, LONGEST_DELAY, MOST_ATTEMPTS, OnUnknown, RetryPolicy};

const STEP: Duration = Duration::from_millis(1);

fn schedule(delays: usize, delay: Duration) -> Backoff {
    Backoff::Schedule {
        schedule: vec![HumanDuration(delay); delays],
    }
}

fn exponential(base: Duration, factor: f64, cap: Duration) -> Backoff {
    Backoff::Exponential {
        base: HumanDuration(base),
        factor,
        cap: HumanDuration(cap),
    }
}

fn with(change: impl FnOnce(&mut RetryPolicy)) -> RetryPolicy {
    let mut policy = RetryPolicy::email();
    change(&mut policy);
    policy
}

#[test]
fn every_field_may_go_to_its_limit() {
    let most = MOST_ATTEMPTS as usize;
    for policy in [
        with(|policy| policy.max_attempts = 1),
        with(|policy| policy.max_attempts = MOST_ATTEMPTS),
        with(|policy| policy.backoff = schedule(most, LONGEST_DELAY)),
        with(|policy| policy.backoff = schedule(1, Duration::ZERO)),
        with(|policy| policy.backoff = exponential(STEP, 1.0, LONGEST_DELAY)),
        with(|policy| policy.backoff = exponential(STEP, 100.0, STEP)),
        with(|policy| policy.jitter = HumanDuration(LONGEST_DELAY)),
        with(|policy| policy.max_unknown_resends = MOST_ATTEMPTS),
        with(|policy| policy.max_unknown_resends = 0),
        with(|policy| policy.on_unknown = OnUnknown::Hold),
        with(|policy| policy.expire_after = Some(HumanDuration(STEP))),
        with(|policy| policy.expire_after = Some(HumanDuration(LONGEST))),
    ] {
        assert_eq!(policy.validate(), Ok(()), "{policy:?}");
    }
}

#[test]
fn a_step_beyond_its_limit_the_field_is_named() {
    let most = MOST_ATTEMPTS as usize;
    let too_long = LONGEST_DELAY + STEP;
    let twice = LONGEST_DELAY * 2;
    for (policy, field) in [
        (with(|policy| policy.max_attempts = 0), "max_attempts"),
        (
            with(|policy| policy.max_attempts = MOST_ATTEMPTS + 1),
            "max_attempts",
        ),
        (
            with(|policy| policy.backoff = schedule(most + 1, STEP)),
            "backoff.schedule",
        ),
        (
            with(|policy| policy.backoff = schedule(most * 2, STEP)),
            "backoff.schedule",
        ),
        (
            with(|policy| policy.backoff = schedule(1, too_long)),
            "backoff.schedule",
        ),
        (
            with(|policy| policy.backoff = exponential(Duration::ZERO, 2.0, STEP)),
            "backoff.base",
        ),
        (
            with(|policy| policy.backoff = exponential(STEP, 0.999, STEP)),
            "backoff.factor",
        ),
        (
            with(|policy| policy.backoff = exponential(STEP, 100.001, STEP)),
            "backoff.factor",
        ),
        (
            with(|policy| policy.backoff = exponential(STEP, f64::NAN, STEP)),
            "backoff.factor",
        ),
        (
            with(|policy| policy.backoff = exponential(STEP, 2.0, too_long)),
            "backoff.cap",
        ),
        (
            with(|policy| policy.jitter = HumanDuration(twice)),
            "jitter",
        ),
        (
            with(|policy| policy.max_unknown_resends = MOST_ATTEMPTS + 7),
            "max_unknown_resends",
        ),
        (
            with(|policy| policy.expire_after = Some(HumanDuration(Duration::ZERO))),
            "expire_after",
        ),
        (
            with(|policy| policy.expire_after = Some(HumanDuration(LONGEST + STEP))),
            "expire_after",
        ),
    ] {
        assert_eq!(policy.validate().unwrap_err().field, field, "{policy:?}");
    }
}

#[test]
fn two_attempts_are_at_most_thirty_days_apart() {
    assert_eq!(HumanDuration(LONGEST_DELAY).to_string(), "30d");
    assert_eq!(format!("{:?}", HumanDuration(LONGEST_DELAY)), "30d");
}
