//! Seed 004's page: what is not delivered yet, and what failed, with Retry and Dismiss.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::EmailRecord;
use posthaste_core::port::{Action, EmailFilter};
use posthaste_core::status::Status;
use posthaste_core::way::in_words;

use super::email::{act_and_return, button, is_expired, retry_action, retry_button};
use super::emails::{heading, next_attempt};
use super::frame::{self, Section};
use super::pulse::Numbers;
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::id::Id;
use crate::page::{address, counted, due, empty, moment, pager, pill};
use crate::problem::Problem;
use crate::query::Parameters;

const ADDRESS: &str = "/admin/email-queue";

/// The queue.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let given = parameters.email_filter(visitor.owner())?;
    let filter = EmailFilter {
        statuses: Status::UNDELIVERED.to_vec(),
        ..given
    };
    let after = filter.after;
    let page = app.operator.list(filter).await?;
    let numbers = app.pulse.numbers(&app).await?;
    let next = page
        .next
        .map(|id| address(ADDRESS, &[("after", &id.to_string())]));
    let content = html! {
        h1 { "Email queue" }
        p class="faint" {
            "Every email that is not delivered: what is still tried is " b { "pending" } ", what was given up has "
            b { "failed" } " and is among the " a href="/admin/dead-letters" { "dead letters" } ", too."
        }
        div data-live="health" { (health(&numbers)) (uncertain(&numbers)) }
        @if !page.emails.is_empty() {
            (table(&app, &visitor, &page.emails))
            (pager(after.map(|_| ADDRESS), next.as_deref()))
        }
    };
    frame::show(&app, &visitor, Section::Queue, "Email queue", &content).await
}

/// Healthy, pending, failed or both, in words.
fn health(numbers: &Numbers) -> Markup {
    let pending: u64 = Status::UNDELIVERED
        .iter()
        .filter(|status| **status != Status::Dead)
        .map(|status| numbers.count(*status))
        .sum();
    let failed = numbers.count(Status::Dead);
    let pending_text = || counted(pending, "email is pending", "emails are pending");
    let failed_text = || counted(failed, "email has failed", "emails have failed");
    match (pending, failed) {
        (0, 0) => empty(
            true,
            "The queue is healthy",
            &html! { "Every email was delivered. Nothing is pending, nothing has failed." },
        ),
        (_, 0) => {
            html! { p { (pill("warn", "↻", &pending_text())) " and will be tried again." } }
        }
        (0, _) => {
            html! { p { (pill("bad", "✕", &failed_text())) ": retry or dismiss." } }
        }
        (_, _) => html! {
            p {
                (pill("bad", "✕", &failed_text()))  ": retry or dismiss. "
                (pill("warn", "↻", &pending_text())) " and will be tried again."
            }
        },
    }
}

/// Uncertain emails are pending, but nothing happens to them by itself.
fn uncertain(numbers: &Numbers) -> Markup {
    let count = numbers.count(Status::Unknown);
    html! {
        @if count > 0 {
            p class="faint" {
                (counted(count, "pending email is", "pending emails are")) " "
                a href="/admin/uncertain" { "uncertain" } " and may wait for your word."
            }
        }
    }
}

fn table(app: &App, visitor: &Visitor, emails: &[EmailRecord]) -> Markup {
    let now = app.operator.now();
    html! {
        table class="list" {
            caption class="hidden" { "Emails that are not delivered, newest first" }
            thead {
                tr {
                    @for name in ["Status", "Email", "Attempts", "Next retry", "Last error", "Created", ""] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody { @for email in emails { (row(app, visitor, email, now)) } }
        }
    }
}

fn row(app: &App, visitor: &Visitor, email: &EmailRecord, now: Timestamp) -> Markup {
    let key = email.id.to_string();
    let is_failed = email.state.status == Status::Dead;
    let base = format!("{ADDRESS}/{key}");
    html! {
        tr data-key=(key) {
            td data-live={ "status-" (key) } {
                @if is_failed { (pill("bad", "✕", "failed")) } @else { (pill("warn", "↻", "pending")) }
                @if let Some(ways) = &email.state.waiting_for {
                    div class="small faint" { "Waiting for " (in_words(ways)) }
                }
            }
            td { (heading(email)) }
            td data-label="Attempts" data-live={ "attempts-" (key) } {
                (email.state.attempt_count) " of " (app.operator.max_attempts(email))
            }
            td data-label="Next retry" data-live={ "next-" (key) } {
                @if let Some(at) = next_attempt(email) { (due(at, now)) }
            }
            td data-label="Error" data-live={ "error-" (key) } {
                @if let Some(error) = &email.state.last_error { span class="clip small" { (error) } }
            }
            td data-label="Created" { (moment(email.created_at, now)) }
            td class="actions" data-live={ "actions-" (key) } {
                @if is_failed && visitor.may_act() {
                    (retry_button(visitor, &format!("{base}/retry"), "", "Retry", "", is_expired(email, now)))
                    (button(visitor, &format!("{base}/dismiss"), "danger", "Dismiss", ""))
                }
            }
        }
    }
}

/// Retry: the row starts over with a fresh budget.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Id(id): Id,
    form: Submitted,
) -> Result<Response, Problem> {
    act_and_return(&app, &form, id, retry_action(&form), ADDRESS).await
}

/// Dismiss: the row leaves the queue.
pub(super) async fn dismiss(
    State(app): State<Arc<App>>,
    Id(id): Id,
    form: Submitted,
) -> Result<Response, Problem> {
    act_and_return(&app, &form, id, Action::Discard, ADDRESS).await
}
