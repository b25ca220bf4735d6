//! Messages of other services: pending, put back, in manual review.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::message::{MessageAction, MessageId, MessageRecord, MessageStatus};

use super::email::button;
use super::frame::{self, Section};
use super::pulse::Numbers;
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::body::MessageDetail;
use crate::id::Id;
use crate::page::{address, empty, full, message_status, moment, number, pager};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::act_on_message;

const TABS: [(&str, &str, Option<MessageStatus>); 5] = [
    ("", "All", None),
    ("pending", "Pending", Some(MessageStatus::Pending)),
    ("retried", "Republished", Some(MessageStatus::Retried)),
    ("failed", "Manual review", Some(MessageStatus::Failed)),
    ("discarded", "Discarded", Some(MessageStatus::Discarded)),
];

/// The list of messages.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    visitor.sees_everything()?;
    let filter = parameters.message_filter()?;
    let numbers = app.pulse.numbers(&app).await?;
    let page = app.message_desk.list(filter.clone()).await?;
    let statuses: Vec<_> = filter.statuses.iter().map(|s| s.as_str()).collect();
    let chosen = statuses.join(",");
    let queue = filter.queue.as_deref().unwrap_or_default();
    let link = |after: &str| {
        let parameters = [
            ("status", chosen.as_str()),
            ("queue", queue),
            ("after", after),
        ];
        address("/admin/messages", &parameters)
    };
    let next = page.next.map(|number| link(&number.to_string()));
    let newest = filter.after.map(|_| link(""));
    let content = html! {
        h1 { "Messages" }
        p class="faint" { "Failed messages of other services, put back into their queues at their time." }
        (tabs(&numbers, &chosen, queue))
        form class="filters" method="get" action="/admin/messages" role="search" {
            @if !chosen.is_empty() { input type="hidden" name="status" value=(chosen); }
            label { "Queue" input name="queue" value=(queue) size="24"; }
            button { "Show" }
        }
        @if page.messages.is_empty() {
            (empty(false, "No message is here", &html! {
                "Services hand in what failed by RabbitMQ; the document messages.md says how."
            }))
        } @else {
            (table(&app, &visitor, &page.messages, &link("")))
            (pager(newest.as_deref(), next.as_deref()))
        }
    };
    frame::show(&app, &visitor, Section::Messages, "Messages", &content).await
}

fn tabs(numbers: &Numbers, chosen: &str, queue: &str) -> Markup {
    let count = |status| {
        numbers
            .messages
            .by_status
            .get(&status)
            .copied()
            .unwrap_or(0)
    };
    html! {
        nav class="tabs" aria-label="States" {
            @for (value, name, status) in TABS {
                a href=(address("/admin/messages", &[("status", value), ("queue", queue)]))
                    aria-current=[(value == chosen).then_some("true")] {
                    (name)
                    @if let Some(status) = status {
                        " " span class="faint" data-live={ "count-" (value) } { (number(count(status))) }
                    }
                }
            }
        }
    }
}

fn table(app: &App, visitor: &Visitor, messages: &[MessageRecord], back: &str) -> Markup {
    let now = app.message_desk.now();
    html! {
        table class="list" {
            caption class="hidden" { "Messages, newest first" }
            thead {
                tr {
                    @for name in ["Status", "Message", "Queue", "Why it failed", "Next retry", "Handed in", ""] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody { @for message in messages { (row(visitor, message, now, back)) } }
        }
    }
}

fn row(visitor: &Visitor, message: &MessageRecord, now: Timestamp, back: &str) -> Markup {
    let state = &message.state;
    let key = message.number;
    html! {
        tr data-key=(key) {
            td data-live={ "status-" (key) } { (message_status(state.status, &message.status_text(now))) }
            td { a href={ "/admin/messages/" (message.id) } { code { (message.id) } } }
            td data-label="Queue" { (message.original_queue) }
            td data-label="Error" { span class="clip small" { (state.last_error.as_deref().unwrap_or(&message.error_reason)) } }
            td data-label="Next retry" data-live={ "next-" (key) } {
                @if state.status == MessageStatus::Pending { (moment(state.next_retry_at, now)) }
            }
            td data-label="Handed in" { (moment(message.created_at, now)) }
            td class="actions" data-live={ "actions-" (key) } {
                @if visitor.may_act() { (buttons(visitor, message, back)) }
            }
        }
    }
}

fn buttons(visitor: &Visitor, message: &MessageRecord, back: &str) -> Markup {
    let base = format!("/admin/messages/{}", message.id);
    let status = message.state.status;
    let (retry, discard) = match status {
        MessageStatus::Pending | MessageStatus::Failed => (true, true),
        MessageStatus::Discarded => (true, false),
        MessageStatus::Retried => (false, false),
    };
    html! {
        @if retry { (button(visitor, &format!("{base}/retry"), "", "Retry Now", back)) }
        @if discard { (button(visitor, &format!("{base}/discard"), "danger", "Discard", back)) }
    }
}

/// One message with its payload.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Id(id): Id<MessageId>,
) -> Result<Response, Problem> {
    visitor.sees_everything()?;
    let message = app.message_desk.find(id).await?;
    let message = message.ok_or_else(Problem::no_such_message)?;
    let now = app.message_desk.now();
    let state = &message.state;
    let detail = MessageDetail::of(message.clone(), now);
    let content = html! {
        div class="head" {
            div {
                h1 { "Message " code { (id) } }
                p data-live="status" { (message_status(state.status, &message.status_text(now))) }
            }
            div class="actions" data-live="actions" {
                @if visitor.may_act() { (buttons(&visitor, &message, "")) }
            }
        }
        section class="panel" data-live="facts" {
            h2 { "About it" }
            dl class="facts" {
                dt { "Queue" } dd { (message.original_queue) }
                dt { "Why it failed" } dd { (message.error_reason) }
                @if let Some(error) = &state.last_error { dt { "Last error here" } dd { (error) } }
                dt { "Retries" } dd { (state.retry_count) " of " (state.max_retries) }
                @if state.status == MessageStatus::Pending {
                    dt { "Next retry" } dd { (moment(state.next_retry_at, now)) ", at " (full(state.next_retry_at)) }
                }
                @if state.repeats > 0 { dt { "Repeats" } dd { "It may have been put back twice, " (state.repeats) " times." } }
                dt { "Handed in" } dd { (full(message.created_at)) }
                @if let Some(at) = state.finished_at { dt { "Over since" } dd { (full(at)) } }
                dt { "Audit" } dd { a href={ "/admin/audit?subject=" (id) } { "Who did what to it" } }
            }
        }
        section class="panel" {
            h2 { "Headers" }
            @if detail.headers().is_empty() { p class="faint" { "It has none." } }
            dl class="facts" { @for (name, value) in detail.headers() { dt { (name) } dd { code { (value) } } } }
        }
        section class="panel" {
            h2 { "Payload" }
            p class="faint" { (number(message.payload_bytes)) " octets" }
            @match detail.payload_text() {
                Some(text) => pre { (text) },
                None => p class="faint" { "It is not text that people can read. The API gives it in base64." },
            }
        }
    };
    frame::show(&app, &visitor, Section::Messages, "Message", &content).await
}

async fn act(
    app: &Arc<App>,
    form: &Submitted,
    id: MessageId,
    action: MessageAction,
) -> Result<Response, Problem> {
    act_on_message(app, &form.visitor.caller, id, action).await?;
    app.pulse.refresh().await;
    let page = format!("/admin/messages/{id}");
    let told = match action {
        MessageAction::Retry => "The message goes back into its queue now.",
        MessageAction::Discard => "The message was discarded.",
    };
    Ok(frame::done(
        frame::back(form.fields.get("back"), &page),
        told,
    ))
}

/// Retry Now.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Id(id): Id<MessageId>,
    form: Submitted,
) -> Result<Response, Problem> {
    act(&app, &form, id, MessageAction::Retry).await
}

/// Discard.
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    Id(id): Id<MessageId>,
    form: Submitted,
) -> Result<Response, Problem> {
    act(&app, &form, id, MessageAction::Discard).await
}
