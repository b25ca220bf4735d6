//! When a retry policy tries, drawn: one row per attempt, and how far it may be spread.

use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_engine::policy::{PlannedAttempt, timeline};

use crate::page::span;

/// The size of the drawing and its parts.
const WIDTH: f64 = 360.0;
const ROW: f64 = 50.0;
const LEFT: f64 = 36.0;
/// The narrowest mark that can be seen.
const NARROWEST: f64 = 4.0;

/// The attempts of an email that is accepted now and always fails.
pub(super) fn draw(policy: &RetryPolicy, now: Timestamp) -> Markup {
    let planned = timeline(policy, now);
    let end = planned
        .last()
        .map_or(0, |last| seconds(now, last.latest))
        .max(1);
    let last = y_of(planned.len());
    html! {
        svg class="plan" viewBox={ "0 0 " (WIDTH) " " (last + 30.0) } role="img"
            aria-label={ "The attempts and their times: " (in_words(&planned, now)) } {
            line class="stem" x1="14" y1="16" x2="14" y2=(last + 16.0) {}
            @for (row, attempt) in planned.iter().enumerate() { (one(y_of(row), attempt, now, end)) }
            g transform={ "translate(0 " (last) ")" } {
                circle class="dead" cx="14" cy="16" r="11" {}
                text class="mark" x="14" y="20.5" { "✕" }
                text class="when" x=(LEFT) y="20.5" { "Dead letter, if all of them fail" }
            }
        }
        p class="faint small" { "Times in UTC, if it were accepted now. A mail server that asks for more time moves them on." }
    }
}

/// Where a row begins.
fn y_of(row: usize) -> f64 {
    f64::from(u32::try_from(row).unwrap_or(u32::MAX)) * ROW
}

fn one(y: f64, attempt: &PlannedAttempt, now: Timestamp, end: u64) -> Markup {
    let (from, to) = (seconds(now, attempt.earliest), seconds(now, attempt.latest));
    let (x, x_end) = (place(from, end), place(to, end));
    html! {
        g transform={ "translate(0 " (y) ")" } {
            circle cx="14" cy="16" r="11" {}
            text class="mark" x="14" y="20.5" { (attempt.number) }
            text class="when" x=(LEFT) y="13" { (when(attempt, now)) }
            text class="after" x=(LEFT) y="28" { (after(from, to)) }
            rect class="track" x=(LEFT) y="35" width=(WIDTH - LEFT - NARROWEST) height="4" rx="2" {}
            rect class="spread" x=(format!("{x:.1}")) y="35" height="4" rx="2"
                width=(format!("{:.1}", (x_end - x).max(NARROWEST))) {}
        }
    }
}

fn seconds(now: Timestamp, at: Timestamp) -> u64 {
    u64::try_from(at.duration_since(now).as_secs()).unwrap_or(0)
}

/// Where a moment is drawn. Early ones are set further apart than late ones: delays grow.
fn place(at: u64, end: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a drawing is not that precise")]
    let share = (at as f64 / end as f64).sqrt();
    LEFT + share * (WIDTH - LEFT - 2.0 * NARROWEST)
}

/// The moment itself: `now`, `10:01:00`, `10:01:00–10:01:30`, with the day where it is another.
fn when(attempt: &PlannedAttempt, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%b %-d").to_string();
    let time = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
    if attempt.latest == now {
        return format!("now, {}", time(now));
    }
    let first = match day(attempt.earliest) == day(now) {
        true => time(attempt.earliest),
        false => format!("{} {}", day(attempt.earliest), time(attempt.earliest)),
    };
    if attempt.earliest == attempt.latest {
        first
    } else if day(attempt.earliest) == day(attempt.latest) {
        format!("{first}–{}", time(attempt.latest))
    } else {
        format!("{first}–{} {}", day(attempt.latest), time(attempt.latest))
    }
}

fn after(from: u64, to: u64) -> String {
    match (from, to) {
        (0, 0) => "at once".to_owned(),
        (from, to) if from == to => format!("{} after it was accepted", span(from)),
        (from, to) => format!("{} to {} after it was accepted", span(from), span(to)),
    }
}

fn in_words(planned: &[PlannedAttempt], now: Timestamp) -> String {
    let words = |attempt: &PlannedAttempt| format!("{}: {}", attempt.number, when(attempt, now));
    planned.iter().map(words).collect::<Vec<_>>().join("; ")
}
