//! Retry policies: when they try.

use std::time::Duration;

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::{Clock as _, SystemClock};
use posthaste_core::retry_policy::{Backoff, RetryPolicy};
use posthaste_core::{Timestamp, retry_policy};
use posthaste_engine::Policies;
use posthaste_engine::policy::{PlannedAttempt, timeline, timeline_after_first};
use serde_json::json;

use crate::arguments::{Global, PolicyCommand};
use crate::config::MESSAGE_POLICY;
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) fn run(global: &Global, command: PolicyCommand) -> anyhow::Result<Exit> {
    let PolicyCommand::Preview {
        name,
        attempts,
        schedule,
        jitter,
        start,
        inline,
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
    // A message was tried before it came to us.
    let planned = match inline || name == MESSAGE_POLICY {
        true => timeline_after_first(&policy, now),
        false => timeline(&policy, now),
    };
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

/// What a choice means: `notification: 3 attempts, dead after about 7 min`.
pub(super) fn in_words(policies: &Policies, choice: &PolicyChoice) -> String {
    let name = match choice {
        PolicyChoice::Named(name) => name,
        PolicyChoice::Own(_) => "own",
    };
    let start = Timestamp::UNIX_EPOCH;
    let planned = timeline(policies.of(choice), start);
    let last = planned.last().map_or(start, |last| last.latest);
    match planned.len() {
        0 | 1 => format!("{name}: 1 attempt, dead if it fails"),
        attempts => format!(
            "{name}: {attempts} attempts, dead after about {}",
            output::span(since(start, last))
        ),
    }
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
        false => format!(", up to {} later each", output::span(policy.jitter.0)),
    };
    let (tries, heading, end) = match name {
        MESSAGE_POLICY => (
            "retries",
            "RETRY",
            "If all fail, the message is left for review. One may ask for more time, or for more or fewer retries.",
        ),
        _ => (
            "attempts",
            "ATTEMPT",
            "If all fail, the email is dead. A mail server that asks for more time moves them on.",
        ),
    };
    let most = policy.max_attempts;
    output::line(&format!("{name}: {most} {tries}{jitter}\n"));
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
    output::table(&[heading, "AFTER", "AT (UTC)"], &rows);
    output::line(&format!("\n{end}"));
}

fn since(start: Timestamp, at: Timestamp) -> Duration {
    let elapsed = at.duration_since(start);
    elapsed.try_into().unwrap_or_default()
}

fn between(from: Duration, to: Duration, given: bool) -> String {
    if to.is_zero() {
        return if given { "at once" } else { "now" }.to_owned();
    }
    if from == to {
        return output::span(from);
    }
    format!("{} – {}", output::span(from), output::span(to))
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
