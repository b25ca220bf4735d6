//! One email: what happened to it, what happens next, what is in it, and what can be done.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, EmailRecord, PolicyChoice, RecipientStatus};
use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::Action;
use posthaste_core::status::{Phase, Status};
use posthaste_engine::ways::DEFAULT_ROUTE;

use super::content;
use super::email_timeline;
use super::emails::next_attempt;
use super::frame::{self, Section};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::id::Id;
use crate::page::{counted, full, moment, number, pill, status, subject_or};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::act;

/// The field that says that an email is to be sent although it has expired.
const EVEN_IF_EXPIRED: &str = "even_if_expired";

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
                @if visitor.may_act() { (buttons(&email, &visitor, &base, now)) }
            }
        }
        div class="split" {
            div {
                section class="panel" aria-labelledby="attempts" {
                    h2 id="attempts" { "What happened" }
                    div data-live="timeline" { (email_timeline::draw(&app, &email, now)) }
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
                _ if state.waiting_for.is_some() => {
                    "It spends no attempts while it waits, and goes as soon as it may."
                    @if let Some(at) = state.waits_until { " It is given up " (moment(at, now)) ", at " (full(at)) "." }
                }
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

/// Whether it is too late for it.
pub(super) fn is_expired(email: &EmailRecord, now: Timestamp) -> bool {
    email.expires_at.is_some_and(|at| at <= now)
}

/// Retry Now: of an email that has expired only if someone says that they mean it.
pub(super) fn retry_button(
    visitor: &Visitor,
    to: &str,
    class: &str,
    name: &str,
    back: &str,
    is_expired: bool,
) -> Markup {
    if !is_expired {
        return button(visitor, to, class, name, back);
    }
    html! {
        form method="post" action=(to) {
            (visitor.csrf_field())
            @if !back.is_empty() { input type="hidden" name="back" value=(back); }
            label class="nowrap" { input type="checkbox" name=(EVEN_IF_EXPIRED) value="yes" required; " even if expired" }
            " "
            button class=(class) { (name) }
        }
    }
}

/// What a form of [`retry_button`] asks for.
pub(super) fn retry_action(form: &Submitted) -> Action {
    match form.fields.get(EVEN_IF_EXPIRED) {
        Some(_) => Action::RetryExpired,
        None => Action::Retry,
    }
}

fn buttons(email: &EmailRecord, visitor: &Visitor, base: &str, now: Timestamp) -> Markup {
    let status = email.state.status;
    let erased = email.erased_at.is_some();
    let retry = || {
        let to = format!("{base}/retry");
        retry_button(
            visitor,
            &to,
            "first",
            "Retry Now",
            "",
            is_expired(email, now),
        )
    };
    html! {
        @match status {
            Status::Dead => {
                @if !erased { (retry()) }
                (button(visitor, &format!("{base}/discard"), "danger", "Discard", ""))
            }
            Status::Failed => {
                (retry())
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
            dt { "Route" } dd { (email.route.as_deref().unwrap_or(DEFAULT_ROUTE)) }
            @for id in email.attempts.iter().filter_map(|attempt| attempt.provider_id.as_ref()) {
                dt { "Provider's id" } dd { code { (id) } }
            }
            dt { "Delivery" } dd {
                @if state.inline { "inline: its caller waited for the first attempt" } @else { "queued" }
            }
            dt { "Attempts" } dd { (counted(u64::from(state.attempt_number), "attempt", "attempts")) ", " (state.attempt_count) " counted since the last fresh start" }
            dt { "Size" } dd { (number(email.size_bytes)) " octets" }
            @if let Some(at) = email.send_at { dt { "Not before" } dd { (full(at)) } }
            @if let Some(at) = email.expires_at { dt { "Not after" } dd {
                (full(at))
                @if at <= now { " " (pill("quiet", "–", "expired")) } @else { span class="faint" { ", " (moment(at, now)) } }
            } }
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
        Action::Retry | Action::RetryExpired => {
            "The email is tried again now, with a fresh set of attempts."
        }
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

/// Retry Now.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Id(id): Id,
    form: Submitted,
) -> Result<Response, Problem> {
    let (action, page) = (retry_action(&form), format!("/admin/emails/{id}"));
    act_and_return(&app, &form, id, action, &page).await
}

/// The handlers of the other buttons.
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
