//! Lists of emails, filtered by what stands in the address of the page.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::EmailRecord;
use posthaste_core::port::EmailFilter;
use posthaste_core::status::Status;

use super::frame::{self, Section};
use crate::access::Visitor;
use crate::app::App;
use crate::page::{address, due, empty, moment, pager, status, subject_or};
use crate::problem::Problem;
use crate::query::Parameters;

/// What can be chosen in the list of states: what is asked for, and what it is called.
const CHOICES: [(&str, &str); 8] = [
    ("", "Any"),
    ("pending,sending", "Waiting"),
    ("failed,retry_queued", "Retrying"),
    ("sent", "Delivered"),
    ("dead", "Failed (dead letter queue)"),
    ("unknown", "Uncertain"),
    ("discarded", "Permanently Failed"),
    ("cancelled", "Cancelled"),
];

/// All emails.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let filter = parameters.email_filter(visitor.owner())?;
    let page = app.operator.list(filter.clone()).await?;
    let chosen = names(&filter.statuses);
    let link = |after: &str| {
        let since = filter.since.map(|at| at.to_string()).unwrap_or_default();
        address(
            "/admin/emails",
            &[
                ("status", chosen.as_str()),
                ("q", text(filter.q.as_ref())),
                ("to", text(filter.to.as_ref())),
                ("template", text(filter.template.as_ref())),
                ("since", since.as_str()),
                ("after", after),
            ],
        )
    };
    let next = page.next.map(|id| link(&id.to_string()));
    let newest = filter.after.map(|_| link(""));
    let content = html! {
        h1 { "Emails" }
        (filters(&filter, &chosen))
        @if page.emails.is_empty() {
            (empty(false, "No email fits", &html! {
                "Nothing was accepted that fits these filters. " a href="/admin/emails" { "Show all" }
            }))
        } @else {
            (table(&app, &page.emails))
            (pager(newest.as_deref(), next.as_deref()))
        }
    };
    frame::show(&app, &visitor, Section::Emails, "Emails", &content).await
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

fn names(statuses: &[Status]) -> String {
    let names: Vec<_> = statuses.iter().map(|status| status.as_str()).collect();
    names.join(",")
}

fn filters(filter: &EmailFilter, chosen: &str) -> Markup {
    let unfiltered = EmailFilter {
        limit: filter.limit,
        owner: filter.owner.clone(),
        ..EmailFilter::default()
    };
    let is_filtered = *filter != unfiltered;
    let is_listed = CHOICES.iter().any(|(value, _)| *value == chosen);
    html! {
        form class="filters" method="get" action="/admin/emails" role="search" {
            label {
                "State"
                select name="status" {
                    @for (value, name) in CHOICES {
                        option value=(value) selected[value == chosen] { (name) }
                    }
                    @if !is_listed { option value=(chosen) selected { (chosen) } }
                }
            }
            label {
                "Search"
                input type="search" name="q" value=(text(filter.q.as_ref())) size="28"
                    placeholder="id, key, address, start of subject";
            }
            label { "To" input type="text" inputmode="email" name="to" value=(text(filter.to.as_ref())) size="18"; }
            label { "Template" input name="template" value=(text(filter.template.as_ref())) size="14"; }
            @if let Some(since) = filter.since { input type="hidden" name="since" value=(since); }
            button { "Show" }
            @if is_filtered {
                a class="button" href="/admin/emails" { "Clear" }
            }
        }
    }
}

/// A table of emails.
pub(super) fn table(app: &App, emails: &[EmailRecord]) -> Markup {
    let now = app.operator.now();
    html! {
        table class="list" {
            caption class="hidden" { "Emails, newest first" }
            thead {
                tr {
                    @for name in ["Status", "Email", "Next attempt", "Last error", "Accepted"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody { @for email in emails { (row(app, email, now)) } }
        }
    }
}

fn row(app: &App, email: &EmailRecord, now: Timestamp) -> Markup {
    let key = email.id.to_string();
    html! {
        tr data-key=(key) {
            td data-live={ "status-" (key) } { (status(email, app.operator.max_attempts(email), now)) }
            td { (heading(email)) }
            td data-label="Next attempt" data-live={ "next-" (key) } {
                @if let Some(at) = next_attempt(email) { (due(at, now)) }
            }
            td data-label="Error" data-live={ "error-" (key) } {
                @if let Some(error) = &email.state.last_error { span class="clip small" { (error) } }
            }
            td data-label="Accepted" { (moment(email.created_at, now)) }
        }
    }
}

/// What it is, in two lines: its subject, and whom it goes to.
pub(super) fn heading(email: &EmailRecord) -> Markup {
    html! {
        div class="subject" {
            a href={ "/admin/emails/" (email.id) } { (subject_or(Some(&email.summary.subject))) }
        }
        div class="faint small" {
            "to " (recipients(email))
            @if let Some(name) = &email.template {
                " · template " a href={ "/admin/templates/" (name) } { (name) }
            }
        }
    }
}

/// When it is tried next, if that is known: not of one that waits for a way out.
pub(super) fn next_attempt(email: &EmailRecord) -> Option<Timestamp> {
    let waits = email.state.waiting_for.is_none()
        && matches!(
            email.state.status,
            Status::Pending | Status::Failed | Status::RetryQueued
        );
    email.state.next_attempt_at.filter(|_| waits)
}

/// Whom it goes to: the first, and how many more.
pub(super) fn recipients(email: &EmailRecord) -> Markup {
    let first = email.recipients.first();
    html! {
        @match first {
            Some(first) => {
                (first.address)
                @if email.recipients.len() > 1 {
                    span class="faint" { " and " (email.recipients.len() - 1) " more" }
                }
            }
            None => span class="faint" { "(erased)" }
        }
    }
}

/// Emails of which nobody knows whether they were delivered.
pub(super) async fn uncertain(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let mut filter = parameters.email_filter(visitor.owner())?;
    filter.statuses = vec![Status::Unknown];
    let page = app.operator.list(filter.clone()).await?;
    let ids: Vec<_> = page.emails.iter().map(|email| email.id).collect();
    let attempts = app.operator.attempts(&ids).await?;
    let now = app.operator.now();
    let next = page
        .next
        .map(|id| address("/admin/uncertain", &[("after", &id.to_string())]));
    let content = html! {
        h1 { "Uncertain" }
        p class="faint" {
            "The server got the whole email, but its answer was lost: it may have been delivered or not. Posthaste never guesses. "
            "Look for the Message-ID in the server's log, then say what became of it."
        }
        @if page.emails.is_empty() {
            (empty(true, "Nothing is uncertain", &html! { "Of every email it is known whether it was delivered." }))
        } @else {
            table class="list" {
                caption class="hidden" { "Uncertain emails, newest first" }
                thead { tr { @for name in ["Email", "What is known", "Since", ""] { th scope="col" { (name) } } } }
                tbody { @for email in &page.emails {
                    (uncertain_row(email, attempts.get(&email.id), &visitor, now))
                } }
            }
            (pager(filter.after.map(|_| "/admin/uncertain"), next.as_deref()))
        }
    };
    frame::show(&app, &visitor, Section::Uncertain, "Uncertain", &content).await
}

fn uncertain_row(
    email: &EmailRecord,
    attempts: Option<&Vec<AttemptRecord>>,
    visitor: &Visitor,
    now: Timestamp,
) -> Markup {
    let state = &email.state;
    let last = attempts.and_then(|attempts| attempts.last());
    html! {
        tr data-key=(email.id) {
            td { (heading(email)) }
            td data-label="Known" {
                div class="small" { (state.last_error.as_deref().unwrap_or("The sender was lost after the final dot.")) }
                div class="faint small" { "Message-ID " code { (message_id(email)) } }
                @if state.unknown_count > 1 { div class="faint small" { (state.unknown_count) " attempts of unknown fate" } }
                @if state.possible_duplicate { div class="faint small" { "A second copy may have left." } }
            }
            td data-label="Since" { (moment(last.map_or(email.created_at, |last| last.finished_at), now)) }
            td class="actions" {
                @if visitor.may_act() { (super::email::resolve_buttons(email.id, visitor, "/admin/uncertain")) }
            }
        }
    }
}

/// What other servers call it in their logs.
fn message_id(email: &EmailRecord) -> String {
    let domain = email.summary.from.rsplit('@').next().unwrap_or_default();
    format!("<{}@{}>", email.id, domain.trim_end_matches('>'))
}
