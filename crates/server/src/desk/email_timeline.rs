//! The life of an email, attempt by attempt, as its page tells it.

use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::EmailRecord;
use posthaste_core::status::{Outcome, Status};
use posthaste_core::way::in_words;

use super::emails::next_attempt;
use crate::app::App;
use crate::page::{full, moment, pill};

/// What happened to an email, from the first moment on, and what comes next.
pub(super) fn draw(app: &App, email: &EmailRecord, now: Timestamp) -> Markup {
    let state = &email.state;
    html! {
        ol class="timeline" {
            li {
                span class="dot calm" aria-hidden="true" { "•" }
                p { strong { "Accepted" } " " (moment(email.created_at, now)) }
                p class="faint small" { (full(email.created_at)) }
            }
            @for attempt in &email.attempts {
                (attempt_entry(attempt, state.inline && attempt.number == 1, now))
                @if attempt.number == state.budget_from { (fresh_start()) }
            }
            @if state.status == Status::Sending {
                li {
                    span class="dot calm" aria-hidden="true" { "→" }
                    p { strong { "Attempt " (state.attempt_number) } " is under way" }
                    @if let Some(worker) = &state.worker { p class="faint small" { "by " (worker) } }
                }
            }
            @if let Some(ways) = &state.waiting_for {
                li {
                    span class="dot warn" aria-hidden="true" { "…" }
                    p { strong { "Waits for " (in_words(ways)) } }
                    p class="faint small" {
                        a href="/admin/transports" { "How the transports do" } ". Waiting spends no attempts."
                    }
                }
            }
            @if let Some(at) = next_attempt(email) {
                li {
                    span class="dot quiet" aria-hidden="true" { "…" }
                    p { strong { "Next attempt" } " " (moment(at, now)) }
                    p class="faint small" {
                        (full(at)) ", " (state.attempt_count + 1) " of " (app.operator.max_attempts(email))
                    }
                }
            }
            @if let (Status::Dead | Status::Discarded | Status::Cancelled, Some(at)) = (state.status, state.finished_at) {
                li {
                    span class="dot bad" aria-hidden="true" { "✕" }
                    p {
                        strong {
                            @match state.status {
                                Status::Dead => { "Moved to the dead letter queue" }
                                Status::Discarded => { "Discarded" }
                                _ => { "Cancelled" }
                            }
                        }
                        " " (moment(at, now))
                    }
                    @if let Some(reason) = state.dead_reason { p class="faint small" { (reason) } }
                }
            }
        }
    }
}

/// Between the attempts before an operator's retry and those after it.
fn fresh_start() -> Markup {
    html! {
        li {
            span class="dot calm" aria-hidden="true" { "•" }
            p { strong { "Tried again by an operator" } ", with a fresh set of attempts" }
        }
    }
}

/// One attempt. `is_inline`: its caller waited for it.
fn attempt_entry(attempt: &AttemptRecord, is_inline: bool, now: Timestamp) -> Markup {
    let (tone, sign, words) = match attempt.outcome {
        Outcome::Sent => ("good", "✓", "delivered"),
        Outcome::Transient => ("warn", "↻", "failed, may pass"),
        Outcome::Permanent => ("bad", "✕", "failed for good"),
        Outcome::Unknown => ("odd", "?", "its fate is not known"),
        Outcome::Lost => ("warn", "!", "its worker was lost; nothing was sent"),
        Outcome::Cancelled => ("quiet", "–", "handed back unsent"),
    };
    let took = attempt.finished_at.duration_since(attempt.started_at);
    html! {
        li {
            span class={ "dot " (tone) } aria-hidden="true" { (sign) }
            p {
                strong { "Attempt " (attempt.number) } " " (pill(tone, sign, words)) " "
                (moment(attempt.started_at, now))
                @if is_inline { span class="faint" { " (inline, not counted)" } }
                @else if attempt.is_free { span class="faint" { " (not counted: it failed by no fault of the email)" } }
            }
            @if let Some(error) = &attempt.error { p class="anywhere" { (error) } }
            p class="faint small" {
                (full(attempt.started_at)) ", took " (milliseconds(took.as_millis()))
                @if let Some(transport) = &attempt.transport { ", by " (transport) }
                @if let Some(stage) = &attempt.stage { ", at the stage " code { (stage) } }
                @if let Some(class) = &attempt.error_class { ", rule " code { (class) } }
                @if let Some(worker) = &attempt.worker { ", worker " (worker) }
                @if let Some(id) = &attempt.provider_id { ", called " code { (id) } " by the provider" }
            }
            @if let Some(reply) = attempt.reply.as_ref().filter(|reply| attempt.error.as_ref() != Some(reply)) {
                pre { (reply) }
            }
        }
    }
}

fn milliseconds(took: i128) -> String {
    if took < 10_000 {
        format!("{took} ms")
    } else {
        crate::page::span(u64::try_from(took / 1000).unwrap_or(0))
    }
}
