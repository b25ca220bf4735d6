//! Retry policies: when they try.

use posthaste_core::duration::HumanDuration;
use posthaste_core::port::{Clock as _, SystemClock};
use posthaste_core::retry_policy::{Backoff, RetryPolicy};
use posthaste_core::{Timestamp, retry_policy};
use posthaste_engine::policy::{PlannedAttempt, timeline};
use serde_json::json;

use crate::arguments::{Global, PolicyCommand};
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) fn run(global: &Global, command: PolicyCommand) -> anyhow::Result<Exit> {
    let PolicyCommand::Preview {
        name,
        attempts,
        schedule,
        jitter,
        start,
    } = command;
    let policies = wiring::load_config(global, None)?.settings.policies()?;
    let Some(policy) = policies.get(&name) else {
        return Err(UsageError(policies.unknown(&name).unwrap_or_default()).into());
    };
    let mut policy = policy.clone();
    policy.max_attempts = attempts.unwrap_or(policy.max_attempts);
    policy.jitter = jitter.unwrap_or(policy.jitter);
    if !schedule.is_empty() {
        policy.backoff = Backoff::Schedule { schedule };
    }
    let valid: Result<(), retry_policy::InvalidPolicy> = policy.validate();
    valid.map_err(|error| UsageError(error.to_string()))?;
    let now = start.unwrap_or_else(|| SystemClock::start().now());
    let planned = timeline(&policy, now);
    if global.json {
        for attempt in planned {
            output::json(&json!({
                "number": attempt.number, "earliest": attempt.earliest, "latest": attempt.latest,
            }));
        }
    } else {
        show(&name, &policy, now, start.is_some(), &planned);
    }
    Ok(Exit::Ok)
}

fn show(
    name: &str,
    policy: &RetryPolicy,
    start: Timestamp,
    given: bool,
    planned: &[PlannedAttempt],
) {
    let jitter = match policy.jitter.0.is_zero() {
        true => String::new(),
        false => format!(", up to {} later each", policy.jitter),
    };
    let attempts = policy.max_attempts;
    output::line(&format!("{name}: {attempts} attempts{jitter}\n"));
    let rows: Vec<_> = planned
        .iter()
        .map(|attempt| {
            vec![
                attempt.number.to_string(),
                between(
                    since(start, attempt.earliest),
                    since(start, attempt.latest),
                    given,
                ),
                range(attempt),
            ]
        })
        .collect();
    output::table(&["ATTEMPT", "AFTER", "AT (UTC)"], &rows);
    output::line(
        "\nIf all fail, the email is dead. A mail server that asks for more time moves them on.",
    );
}

fn since(start: Timestamp, at: Timestamp) -> HumanDuration {
    let elapsed = at.duration_since(start);
    HumanDuration(elapsed.try_into().unwrap_or_default())
}

fn between(from: HumanDuration, to: HumanDuration, given: bool) -> String {
    if to.0.is_zero() {
        return if given { "at once" } else { "now" }.to_owned();
    }
    if from == to {
        return from.to_string();
    }
    format!("{from} – {to}")
}

/// `2026-11-16 10:01:00 – 10:01:30`, the date once where it is the same.
fn range(attempt: &PlannedAttempt) -> String {
    let parts = |at: Timestamp| {
        let text = format!("{at:.0}");
        let text = text.trim_end_matches('Z').to_owned();
        match text.split_once('T') {
            Some((date, time)) => (date.to_owned(), time.to_owned()),
            None => (text, String::new()),
        }
    };
    let ((date, time), (last_date, last_time)) = (parts(attempt.earliest), parts(attempt.latest));
    if attempt.earliest == attempt.latest {
        format!("{date} {time}")
    } else if date == last_date {
        format!("{date} {time} – {last_time}")
    } else {
        format!("{date} {time} – {last_date} {last_time}")
    }
}
