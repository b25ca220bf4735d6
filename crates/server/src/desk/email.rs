//! One email: what happened to it, what happens next, what is in it, and what can be done.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord, PolicyChoice, RecipientStatus};
use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::Action;
use posthaste_core::status::{Outcome, Phase, Status};

use super::content;
use super::emails::next_attempt;
use super::frame::{self, Section};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::id::Id;
use crate::page::{counted, full, moment, number, pill, status, subject_or};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::act;

/// The page of an email.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Id(id): Id,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let email = app.operator.find(id, visitor.owner()).await?;
    let email = email.ok_or_else(Problem::no_such_email)?;
    let bytes = match email.erased_at {
        Some(_) => None,
        None => app.operator.content(id).await?,
    };
    let now = app.operator.now();
    let base = format!("/admin/emails/{id}");
    let subject = subject_or(Some(&email.summary.subject));
    let content = html! {
        div class="head" {
            div {
                h1 { (subject) }
                p data-live="status" { (status(&email, app.operator.max_attempts(&email), now)) " " (next(&app, &email, now)) }
            }
            div class="actions" data-live="actions" {
                @if visitor.may_act() { (buttons(&email, &visitor, &base)) }
            }
        }
        div class="split" {
            div {
                section class="panel" aria-labelledby="attempts" {
                    h2 id="attempts" { "What happened" }
                    div data-live="timeline" { (timeline(&app, &email, now)) }
                }
                section class="panel" aria-labelledby="content-title" {
                    div class="head" {
                        h2 id="content-title" { "Content" }
                        @if bytes.is_some() { a class="button" href={ (base) "/download" } { "Download .eml" } }
                    }
                    @match (&bytes, email.erased_at) {
                        (_, Some(at)) => p class="faint" { "Body and addresses were erased " (moment(at, now)) "." },
                        (Some(bytes), None) => (content::tabs(&base, bytes, parameters.view())),
                        (None, None) => p class="faint" { "There is no content." },
                    }
                }
            }
            div {
                section class="panel" aria-labelledby="facts" {
                    h2 id="facts" { "About it" }
                    div data-live="facts" { (facts(&email, now)) }
                }
                section class="panel" aria-labelledby="recipients" {
                    h2 id="recipients" { "Recipients" }
                    div data-live="recipients" { (recipients(&email)) }
                }
                @if visitor.may_act() && email.erased_at.is_none() && email.state.status.is_terminal() {
                    (erasure(&visitor, &base))
                }
            }
        }
    };
    frame::show(&app, &visitor, Section::Emails, subject, &content).await
}

/// What happens next and when.
fn next(app: &App, email: &EmailRecord, now: Timestamp) -> Markup {
    let state = &email.state;
    let budget = app.operator.max_attempts(email);
    html! {
        span class="faint" {
            @match state.status {
                Status::Pending | Status::Failed | Status::RetryQueued => {
                    @match next_attempt(email) {
                        Some(at) if at > now => {
                            "Attempt " (state.attempt_count + 1) " of " (budget) " follows " (moment(at, now)) ", at " (full(at)) "."
                        }
                        _ => { "Its next attempt is due: a sender takes it as soon as one is free." }
                    }
                }
                Status::Sending => {
                    @match state.phase {
                        Phase::Committing => { "The server has the whole email; its answer is awaited." }
                        _ => { "A sender is talking to the server right now." }
                    }
                }
                Status::Sent => { "The server took responsibility for it." }
                Status::Unknown => {
                    @match state.next_attempt_at {
                        Some(_) => { "Its retry policy decides in a moment." }
                        None => { "Nothing happens by itself: look into the server's log, then say what became of it." }
                    }
                }
                Status::Dead => {
                    "Nothing happens by itself."
                    @if let Some(reason) = state.dead_reason { " Reason: " (reason) "." }
                }
                Status::Discarded => { "Given up for good. It can be restored until it is removed." }
                Status::Cancelled => { "Withdrawn before it was sent." }
            }
        }
    }
}

/// A button that does something at once.
pub(super) fn button(visitor: &Visitor, to: &str, class: &str, name: &str, back: &str) -> Markup {
    html! {
        form method="post" action=(to) {
            (visitor.csrf_field())
            @if !back.is_empty() { input type="hidden" name="back" value=(back); }
            button class=(class) { (name) }
        }
    }
}

fn buttons(email: &EmailRecord, visitor: &Visitor, base: &str) -> Markup {
    let status = email.state.status;
    let erased = email.erased_at.is_some();
    html! {
        @match status {
            Status::Dead => {
                @if !erased { (button(visitor, &format!("{base}/retry"), "first", "Retry Now", "")) }
                (button(visitor, &format!("{base}/discard"), "danger", "Discard", ""))
            }
            Status::Failed => {
                (button(visitor, &format!("{base}/retry"), "first", "Retry Now", ""))
                (button(visitor, &format!("{base}/cancel"), "danger", "Cancel", ""))
            }
            Status::Pending | Status::RetryQueued => {
                (button(visitor, &format!("{base}/cancel"), "danger", "Cancel", ""))
            }
            Status::Unknown => (resolve_buttons(email.id, visitor, "")),
            Status::Discarded => (button(visitor, &format!("{base}/restore"), "", "Restore", "")),
            Status::Sending | Status::Sent | Status::Cancelled => {}
        }
    }
}

/// What can be said about an uncertain email.
pub(super) fn resolve_buttons(id: EmailId, visitor: &Visitor, back: &str) -> Markup {
    let choices = [
        ("sent", "It was delivered", ""),
        ("retry", "Send it again", ""),
        ("dead", "Give it up", "danger"),
    ];
    html! {
        @for (resolution, name, class) in choices {
            form method="post" action={ "/admin/emails/" (id) "/resolve" } {
                (visitor.csrf_field())
                input type="hidden" name="as" value=(resolution);
                @if !back.is_empty() { input type="hidden" name="back" value=(back); }
                button class=(class) { (name) }
            }
        }
    }
}

fn erasure(visitor: &Visitor, base: &str) -> Markup {
    html! {
        section class="panel" {
            details {
                summary { "Erase the content" }
                p class="faint" {
                    "Removes body, addresses and the server's words for good, and keeps what is counted. It cannot be sent again after that."
                }
                (button(visitor, &format!("{base}/erase"), "danger", "Erase for good", ""))
            }
        }
    }
}

fn timeline(app: &App, email: &EmailRecord, now: Timestamp) -> Markup {
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
            }
            @if let Some(error) = &attempt.error { p class="anywhere" { (error) } }
            p class="faint small" {
                (full(attempt.started_at)) ", took " (milliseconds(took.as_millis()))
                @if let Some(transport) = &attempt.transport { ", by " (transport) }
                @if let Some(stage) = &attempt.stage { ", at the stage " code { (stage) } }
                @if let Some(class) = &attempt.error_class { ", rule " code { (class) } }
                @if let Some(worker) = &attempt.worker { ", worker " (worker) }
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

fn facts(email: &EmailRecord, now: Timestamp) -> Markup {
    let state = &email.state;
    let policy = match &email.policy {
        PolicyChoice::Named(name) => name.as_str(),
        PolicyChoice::Own(_) => "its own",
    };
    html! {
        dl class="facts" {
            dt { "Id" } dd { code { (email.id) } }
            dt { "Key" } dd { code { (email.message_key) } }
            dt { "From" } dd { (email.summary.from) }
            @if let Some(template) = &email.template {
                dt { "Template" } dd { a href={ "/admin/templates/" (template) } { (template) } }
            }
            dt { "Owner" } dd { (email.owner) }
            dt { "Priority" } dd { (email.priority) }
            dt { "Retry policy" } dd { (policy) }
            dt { "Delivery" } dd {
                @if state.inline { "inline: its caller waited for the first attempt" } @else { "queued" }
            }
            dt { "Attempts" } dd { (counted(u64::from(state.attempt_number), "attempt", "attempts")) ", " (state.attempt_count) " counted since the last fresh start" }
            dt { "Size" } dd { (number(email.size_bytes)) " octets" }
            @if let Some(at) = email.send_at { dt { "Not before" } dd { (full(at)) } }
            @if let Some(at) = email.expires_at { dt { "Not after" } dd { (full(at)) } }
            @if let Some(at) = state.sent_at { dt { "Delivered" } dd { (moment(at, now)) } }
            @if state.possible_duplicate { dt { "Copies" } dd { "A second copy may have left: an earlier attempt is of unknown fate." } }
            @if let Some(fingerprint) = &state.fingerprint {
                dt { "Error group" } dd {
                    @if state.status == Status::Dead {
                        a href={ "/admin/dead-letters?fingerprint=" (fingerprint) } { code { (fingerprint) } }
                    } @else { code { (fingerprint) } }
                }
            }
            @for (name, value) in &email.metadata { dt { (name) } dd { (value) } }
            dt { "Audit" } dd {
                a href={ "/admin/audit?subject=" (email.id) } { "Who did what to it" }
                span class="faint" { ", besides " } a href="/admin/operations" { "operations over many" }
            }
        }
    }
}

fn recipients(email: &EmailRecord) -> Markup {
    html! {
        @if email.recipients.is_empty() { p class="faint" { "The addresses were erased." } }
        ul class="timeline" {
            @for recipient in &email.recipients {
                @let (tone, sign, words) = match (recipient.status, email.state.status) {
                    (_, Status::Sent) | (RecipientStatus::Accepted, _) => ("good", "✓", "accepted"),
                    (RecipientStatus::Dead, _) | (_, Status::Dead | Status::Discarded) => ("bad", "✕", "given up"),
                    (_, Status::Cancelled) => ("quiet", "–", "withdrawn"),
                    (_, Status::Unknown) => ("odd", "?", "uncertain"),
                    (RecipientStatus::Waiting, _) => ("calm", "…", "waiting"),
                };
                li {
                    span class={ "dot " (tone) } aria-hidden="true" { (sign) }
                    p class="anywhere" { (recipient.address) " " (pill(tone, sign, words)) }
                    @if let Some(detail) = &recipient.detail { p class="faint small anywhere" { (detail) } }
                    @if let Some(reason) = recipient.reason { p class="faint small" { (reason) } }
                }
            }
        }
    }
}

/// What was done, for people.
const fn told(action: Action) -> &'static str {
    match action {
        Action::Retry => "The email is tried again now, with a fresh set of attempts.",
        Action::Cancel => "The email was cancelled.",
        Action::Discard => "The email was discarded. It can be restored until it is removed.",
        Action::Restore => "The email is in the dead letter queue again.",
        Action::Erase => "The content was erased.",
        Action::Resolve(Resolution::Sent) => "The email counts as delivered.",
        Action::Resolve(Resolution::Retry) => "The email is sent again.",
        Action::Resolve(Resolution::Dead) => "The email was moved to the dead letter queue.",
    }
}

/// Does something to an email, and leads back to where the form was.
pub(super) async fn act_and_return(
    app: &Arc<App>,
    form: &Submitted,
    id: EmailId,
    action: Action,
    otherwise: &str,
) -> Result<Response, Problem> {
    act(app, &form.visitor.caller, id, action).await?;
    app.pulse.refresh().await;
    let to = frame::back(form.fields.get("back"), otherwise);
    Ok(frame::done(to, told(action)))
}

/// The handlers of the buttons.
macro_rules! buttons {
    ($($(#[$doc:meta])* $name:ident = $action:expr;)+) => {$(
        $(#[$doc])*
        pub(super) async fn $name(
            State(app): State<Arc<App>>,
            Id(id): Id,
            form: Submitted,
        ) -> Result<Response, Problem> {
            act_and_return(&app, &form, id, $action, &format!("/admin/emails/{id}")).await
        }
    )+};
}

buttons! {
    /// Retry Now.
    retry = Action::Retry;
    /// Cancel.
    cancel = Action::Cancel;
    /// Discard.
    discard = Action::Discard;
    /// Restore.
    restore = Action::Restore;
    /// Erase for good.
    erase = Action::Erase;
}

/// Settles the fate of an uncertain email.
pub(super) async fn resolve(
    State(app): State<Arc<App>>,
    Id(id): Id,
    form: Submitted,
) -> Result<Response, Problem> {
    let resolution: Resolution = form
        .fields
        .text("as")
        .parse()
        .map_err(|_| Problem::invalid("as", "must be sent, retry or dead"))?;
    let action = Action::Resolve(resolution);
    act_and_return(&app, &form, id, action, &format!("/admin/emails/{id}")).await
}
