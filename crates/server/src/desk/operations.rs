//! Operations over many dead letters: how far they are, and how to hold them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::operation::{
    BulkAction, Operation, OperationChange, OperationId, OperationStatus,
};
use posthaste_core::port::OperationChanged;

use super::bulk::{in_words, verb};
use super::email::button;
use super::frame::{self, Section};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::id::Id;
use crate::page::{counted, empty, full, moment, number, pill, span};
use crate::problem::Problem;
use crate::route::operation_advice;

/// How many operations are listed.
const SHOWN: usize = 100;

/// The newest operations.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let operations = app.operator.operations(SHOWN, visitor.owner()).await?;
    let now = app.operator.now();
    let content = html! {
        h1 { "Operations" }
        p class="faint" { "What was done to many dead letters at once, and is being done." }
        @if operations.is_empty() {
            (empty(false, "No operation yet", &html! {
                "Retry or discard a group of " a href="/admin/dead-letters" { "dead letters" } " to make one."
            }))
        } @else {
            table class="list" {
                caption class="hidden" { "Operations, newest first" }
                thead {
                    tr { @for name in ["Status", "Operation", "Progress", "By", "Begun"] { th scope="col" { (name) } } }
                }
                tbody { @for operation in &operations { (row(operation, now)) } }
            }
        }
    };
    frame::show(&app, &visitor, Section::Operations, "Operations", &content).await
}

fn row(operation: &Operation, now: Timestamp) -> Markup {
    let key = operation.id;
    html! {
        tr data-key=(key) {
            td data-live={ "status-" (key) } { (status(operation.status)) }
            td {
                div class="subject" { a href={ "/admin/operations/" (key) } { (title(operation)) } }
                div class="faint small" { (in_words(&operation.filter)) }
            }
            td { (bar(operation)) div class="small faint" data-live={ "progress-" (key) } { (so_far(operation)) } }
            td data-label="By" { (operation.actor) }
            td data-label="Begun" { (moment(operation.created_at, now)) }
        }
    }
}

/// One operation.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Id(id): Id<OperationId>,
) -> Result<Response, Problem> {
    let found = app.operator.operation(id, visitor.owner()).await?;
    let operation = found.ok_or_else(Problem::no_such_operation)?;
    let now = app.operator.now();
    let title = title(&operation);
    let content = html! {
        div class="head" {
            div {
                h1 { (title) }
                div data-live="status" { (status(operation.status)) }
            }
            div class="actions" data-live="actions" {
                @if visitor.may_act() { (buttons(&operation, &visitor)) }
            }
        }
        section class="panel" {
            (bar(&operation))
            p data-live="progress" { (so_far(&operation)) }
            p class="faint" data-live="outlook" { (outlook(&operation, now)) }
        }
        section class="panel" {
            dl class="facts" {
                dt { "To which" } dd { (in_words(&operation.filter)) }
                dt { "Pace" } dd { (pace(&operation)) }
                dt { "Treated" } dd data-live="done" { (number(operation.done)) }
                dt { "Left as they are" } dd data-live="skipped" {
                    (number(operation.skipped))
                    @if operation.skipped > 0 {
                        span class="faint" { " (not dead any more, died anew, erased or expired)" }
                    }
                }
                dt { "Begun" } dd { (full(operation.created_at)) " by " (operation.actor) }
                dt { "Ended" } dd data-live="ended" {
                    @if let Some(at) = operation.finished_at { (full(at)) } @else { "not yet" }
                }
                dt { "Id" } dd { code { (operation.id) } }
            }
        }
        p { a href="/admin/operations" { "All operations" } " · " a href="/admin/dead-letters" { "Dead letters" } }
    };
    frame::show(&app, &visitor, Section::Operations, &title, &content).await
}

fn title(operation: &Operation) -> String {
    let letters = counted(operation.total, "dead letter", "dead letters");
    format!("{} {letters}", verb(operation.action))
}

fn status(status: OperationStatus) -> Markup {
    match status {
        OperationStatus::Running => pill("calm", "→", "Running"),
        OperationStatus::Paused => pill("warn", "‖", "Paused"),
        OperationStatus::Cancelled => pill("quiet", "–", "Cancelled"),
        OperationStatus::Done => pill("good", "✓", "Done"),
    }
}

fn bar(operation: &Operation) -> Markup {
    let behind = operation.done + operation.skipped;
    html! {
        // One without emails is over, too.
        progress data-key=(operation.id) max=(operation.total.max(1))
            value=(if operation.total == 0 { 1 } else { behind })
            aria-label={ "Progress of " (title(operation)) } { (behind) " of " (operation.total) }
    }
}

/// How far it is, in words.
fn so_far(operation: &Operation) -> Markup {
    let behind = operation.done + operation.skipped;
    html! {
        (number(behind)) " of " (number(operation.total))
        @if operation.skipped > 0 { ", " (number(operation.skipped)) " of them left as they are" }
    }
}

fn pace(operation: &Operation) -> String {
    operation.rate_per_second.map_or_else(
        || "as fast as it goes".to_owned(),
        |rate| format!("{} per second", number(u64::from(rate))),
    )
}

/// What comes next, in words.
fn outlook(operation: &Operation, now: Timestamp) -> Markup {
    let remaining = number(operation.remaining());
    html! {
        @match operation.status {
            OperationStatus::Running => {
                @match seconds_left(operation, now) {
                    Some(seconds) => { "About " (span(seconds)) " left." }
                    None => "It has just begun.",
                }
            }
            OperationStatus::Paused => {
                "Paused. " (remaining) " wait until it is resumed; they are still dead letters."
            }
            OperationStatus::Cancelled => {
                "Cancelled. " (remaining) " were not treated and stayed as they were."
            }
            OperationStatus::Done => {
                @match (operation.total, operation.action) {
                    (0, _) => "There was nothing to do.",
                    (_, BulkAction::Retry) => "Every email was treated. One that dies again is among the dead letters again.",
                    (_, BulkAction::Discard) => "Every email was treated. They can be restored until their retention ends.",
                }
            }
        }
    }
}

/// How long it will take, by its pace or by how fast it was so far.
fn seconds_left(operation: &Operation, now: Timestamp) -> Option<u64> {
    let remaining = operation.remaining();
    if let Some(rate) = operation.rate_per_second {
        return Some(remaining.div_ceil(u64::from(rate.max(1))));
    }
    let behind = operation.done + operation.skipped;
    let since = now.duration_since(operation.created_at).as_secs();
    let since = u64::try_from(since).unwrap_or(0).max(1);
    (behind > 0).then(|| remaining.saturating_mul(since) / behind)
}

fn buttons(operation: &Operation, visitor: &Visitor) -> Markup {
    let to = |change: &str| format!("/admin/operations/{}/{change}", operation.id);
    let button =
        |change: &str, class: &str, name: &str| button(visitor, &to(change), class, name, "");
    html! {
        @match operation.status {
            OperationStatus::Running => { (button("pause", "", "Pause")) }
            OperationStatus::Paused => { (button("resume", "first", "Resume")) }
            OperationStatus::Cancelled | OperationStatus::Done => {}
        }
        @if !operation.status.is_over() { (button("cancel", "danger", "Cancel")) }
    }
}

/// The handlers of the buttons.
macro_rules! buttons {
    ($($(#[$doc:meta])* $name:ident = $change:ident, $told:literal;)+) => {$(
        $(#[$doc])*
        pub(super) async fn $name(
            State(app): State<Arc<App>>,
            Id(id): Id<OperationId>,
            form: Submitted,
        ) -> Result<Response, Problem> {
            change(&app, &form, id, OperationChange::$change, $told).await
        }
    )+};
}

buttons! {
    /// Pause.
    pause = Pause, "Paused. Nothing more is treated until it is resumed.";
    /// Resume.
    resume = Resume, "It goes on.";
    /// Cancel.
    cancel = Cancel, "Cancelled. What was not treated stayed as it was.";
}

async fn change(
    app: &Arc<App>,
    form: &Submitted,
    id: OperationId,
    change: OperationChange,
    told: &str,
) -> Result<Response, Problem> {
    let actor = form.visitor.caller.actor();
    let told = match app.operator.change_operation(id, change, &actor).await? {
        OperationChanged::Done(_) => told.to_owned(),
        // Someone else was faster, or it was: the page shows what is so now.
        OperationChanged::Refused(status) => operation_advice(status),
        OperationChanged::NotFound => return Err(Problem::no_such_operation()),
    };
    Ok(frame::done(&format!("/admin/operations/{id}"), &told))
}
