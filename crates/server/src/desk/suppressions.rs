//! Addresses that get nothing any more: looking for them, putting them there, taking them off.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::port::SuppressionFilter;
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::Suppression;
use posthaste_engine::access::DEFAULT_OWNER;

use super::frame::{self, Section};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::body::{LONGEST_DETAIL, place};
use crate::page::{address, empty, moment, pill};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::{not_on_the_list, owner_for, seen, suppress};

const HERE: &str = "/admin/suppressions";

/// What was typed into the form, and why it was refused.
#[derive(Default)]
struct Typed {
    address: String,
    detail: String,
    owner: String,
    refusal: Option<String>,
}

/// The list, as far as it is asked for.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let mut filter = parameters.suppression_filter()?;
    filter.owner = seen(&visitor.caller, filter.owner)?;
    page(&app, &visitor, filter, &Typed::default()).await
}

async fn page(
    app: &Arc<App>,
    visitor: &Visitor,
    filter: SuppressionFilter,
    typed: &Typed,
) -> Result<Response, Problem> {
    let found = app.operator.suppressions(filter.clone()).await?;
    let q = filter.q.as_deref().unwrap_or_default();
    let sees_everyone = visitor.owner().is_none();
    let owner = filter.owner.as_deref().filter(|_| sees_everyone);
    let owner = owner.unwrap_or_default();
    let link = |after: &str| address(HERE, &[("q", q), ("owner", owner), ("after", after)]);
    let next = found.next.as_ref().map(|after| link(&place(after)));
    let content = html! {
        h1 { "Suppressions" }
        p class="faint" {
            "Addresses that get nothing any more, because mail to them came back for good, because they complained, or by \
             hand. An email to one of them is dead at once, without a connection."
        }
        @if visitor.may_act() { (form(visitor, typed)) }
        form class="filters" method="get" action=(HERE) role="search" {
            label { "Address" input type="search" name="q" value=(q) size="28" placeholder="ann@ or @example.net"; }
            @if sees_everyone { label { "Owner" input name="owner" value=(owner) size="14"; } }
            button { "Show" }
            @if !q.is_empty() || !owner.is_empty() { a class="button" href=(HERE) { "Show all" } }
        }
        @if found.entries.is_empty() {
            (empty(q.is_empty() && owner.is_empty(), "No address is here", &html! {
                @if q.is_empty() && owner.is_empty() { "Mail is sent to every address." }
                @else { "None fits." }
            }))
        } @else {
            (table(visitor, &found.entries, app.operator.now()))
            @if filter.after.is_some() || next.is_some() {
                nav class="pager" aria-label="Pages" {
                    @if filter.after.is_some() { a href=(link("")) rel="first" { "« First" } }
                    @if let Some(next) = next { a href=(next) rel="next" { "Next »" } }
                }
            }
        }
    };
    let title = "Suppressions";
    frame::show(app, visitor, Section::Suppressions, title, &content).await
}

fn table(visitor: &Visitor, entries: &[Suppression], now: Timestamp) -> Markup {
    html! {
        table class="list" {
            caption class="hidden" { "Addresses that get nothing any more" }
            thead {
                tr { @for name in ["Address", "Reason", "Owner", "Since", "By", ""] { th scope="col" { (name) } } }
            }
            tbody { @for entry in entries { (row(visitor, entry, now)) } }
        }
    }
}

fn row(visitor: &Visitor, entry: &Suppression, now: Timestamp) -> Markup {
    let (tone, sign) = match entry.reason {
        DeadReason::SpamComplaint => ("bad", "!"),
        DeadReason::HardBounce => ("warn", "✕"),
        _ => ("quiet", "–"),
    };
    html! {
        tr data-key={ (entry.owner) "/" (entry.address) } {
            td class="subject anywhere" { (entry.address) }
            td data-label="Reason" {
                (pill(tone, sign, entry.reason.as_str()))
                @if let Some(detail) = &entry.detail { div class="clip small faint" { (detail) } }
                @if let Some(id) = entry.email_id {
                    div class="small" { a href={ "/admin/emails/" (id) } { "The email" } }
                }
            }
            td data-label="Owner" { (entry.owner) }
            td data-label="Since" { (moment(entry.created_at, now)) }
            td data-label="By" { (entry.created_by) }
            td class="actions" {
                @if visitor.may_act() {
                    form method="post" action={ (HERE) "/remove" } {
                        (visitor.csrf_field())
                        input type="hidden" name="address" value=(entry.address);
                        input type="hidden" name="owner" value=(entry.owner);
                        button class="danger" { "Remove" }
                    }
                }
            }
        }
    }
}

fn form(visitor: &Visitor, typed: &Typed) -> Markup {
    let owner = match typed.owner.as_str() {
        "" => DEFAULT_OWNER,
        owner => owner,
    };
    html! {
        details class="panel" open[typed.refusal.is_some()] {
            summary { "Add an address" }
            @if let Some(refusal) = &typed.refusal { p class="error" role="alert" { (refusal) } }
            form method="post" action=(HERE) class="narrow" {
                (visitor.csrf_field())
                label class="field" {
                    "Address"
                    input name="address" type="text" inputmode="email" required value=(typed.address) autocomplete="off";
                }
                label class="field" {
                    "Why"
                    input name="detail" maxlength=(LONGEST_DETAIL) value=(typed.detail) autocomplete="off";
                }
                label class="field" {
                    "Owner"
                    input name="owner" value=(owner) maxlength="100" autocomplete="off";
                    span class="hint" { "Whose emails are not sent to it." }
                }
                button class="first" { "Add" }
            }
        }
    }
}

/// Puts an address on the list.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let mut typed = Typed {
        address: fields.text("address").trim().to_owned(),
        detail: fields.text("detail").trim().to_owned(),
        owner: fields.text("owner").trim().to_owned(),
        refusal: None,
    };
    let asked = Some(typed.owner.clone()).filter(|owner| !owner.is_empty());
    let owner = owner_for(&visitor.caller, asked)?;
    let detail = Some(typed.detail.clone());
    match suppress(&app, &visitor.caller, &owner, &typed.address, detail).await {
        Ok((entry, true)) => {
            let told = format!("{} gets nothing any more.", entry.address);
            Ok(frame::done(HERE, &told))
        }
        Ok((entry, false)) => {
            let told = format!("{} was on the list already.", entry.address);
            Ok(frame::done(HERE, &told))
        }
        Err(problem) if problem.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            typed.refusal = Some(format!("Nothing was added: {}.", problem.detail()));
            let filter = Parameters::default().suppression_filter()?;
            let mut response = page(&app, &visitor, filter, &typed).await?;
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(response)
        }
        Err(problem) => Err(problem),
    }
}

/// Takes an address off the list.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let owner = owner_for(&visitor.caller, fields.get("owner").map(str::to_owned))?;
    let address = fields.text("address");
    let actor = visitor.caller.actor();
    if !app.operator.unsuppress(&owner, address, &actor).await? {
        return Err(not_on_the_list());
    }
    Ok(frame::done(HERE, &format!("{address} gets mail again.")))
}
