//! Asking before many dead letters are treated, and beginning to.

use std::str::FromStr as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::email::EmailId;
use posthaste_core::operation::{BulkAction, DeadFilter, NewOperation, OperationId};

use super::emails::table;
use super::frame::{self, Section};
use crate::access::{Fields, Submitted, Visitor};
use crate::app::App;
use crate::body::check_rate;
use crate::page::{counted, number, span};
use crate::problem::{Kind, Problem};
use crate::query::time_of;

/// Where someone goes who changes their mind.
const DEAD_LETTERS: &str = "/admin/dead-letters";
/// How many of the emails are shown before they are treated.
const SAMPLES: usize = 5;
/// The paces to choose from, per second.
const PACES: [u32; 5] = [500, 100, 50, 10, 1];
/// From so many emails on, a retry is paced unless someone wishes otherwise.
const MANY: u64 = 200;

/// What a form asks for.
struct Asked {
    action: BulkAction,
    filter: DeadFilter,
    rate_per_second: Option<u32>,
}

/// Reads a form. `None`: nothing was selected.
fn asked(fields: &Fields) -> Result<Option<Asked>, Problem> {
    let action = BulkAction::from_str(fields.text("action"))
        .map_err(|error| Problem::invalid("action", error.to_string()))?;
    let rate_per_second = match fields.get("rate") {
        None => None,
        Some(text) => {
            let rate = text.trim().parse().unwrap_or(0);
            check_rate(Some(rate)).map_err(|message| Problem::invalid("rate", message))?;
            Some(rate)
        }
    };
    let mut filter = DeadFilter::default();
    if fields.get("all").is_some() {
        let given = |name: &str| fields.get(name).map(str::to_owned);
        filter.fingerprint = given("fingerprint");
        filter.template = given("template");
        filter.to = given("to");
        filter.q = given("q");
        let since = fields.get("since").map(time_of).transpose();
        filter.since = since.map_err(|message| Problem::invalid("since", message))?;
    } else {
        let ids: Result<Vec<EmailId>, _> = fields.all("id").map(str::parse).collect();
        filter.ids = ids.map_err(|_| Problem::invalid("id", "is not the id of an email"))?;
        if filter.ids.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(Asked {
        action,
        filter,
        rate_per_second,
    }))
}

/// The hidden fields that say which dead letters.
pub(super) fn filter_fields(filter: &DeadFilter) -> Markup {
    let since = filter.since.map(|at| at.to_string());
    let fields = [
        ("fingerprint", &filter.fingerprint),
        ("template", &filter.template),
        ("to", &filter.to),
        ("q", &filter.q),
        ("since", &since),
    ];
    html! {
        @for (name, value) in fields {
            @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
        }
        @for id in &filter.ids { input type="hidden" name="id" value=(id); }
    }
}

/// Which dead letters, in words.
pub(super) fn in_words(filter: &DeadFilter) -> Markup {
    let DeadFilter {
        ids,
        fingerprint,
        template,
        to,
        q,
        since,
    } = filter;
    let selected = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    html! {
        @if *filter == DeadFilter::default() { "All dead letters" }
        @else if !ids.is_empty() { (counted(selected, "selected email", "selected emails")) }
        @else { "Dead letters" }
        @if let Some(name) = fingerprint {
            " that died of " a href=(crate::page::address(DEAD_LETTERS, &[("fingerprint", name)])) { code { (name) } }
        }
        @if let Some(name) = template { " from the template " b { (name) } }
        @if let Some(address) = to { " to " b { (address) } }
        @if let Some(text) = q { " that fit “" b { (text) } "”" }
        @if let Some(at) = since { " accepted since " (crate::page::full(*at)) }
    }
}

/// What is done, as a verb.
pub(super) const fn verb(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Retry => "Retry",
        BulkAction::Discard => "Discard",
    }
}

/// Asks whether to treat them, and how fast.
pub(super) async fn confirm(
    State(app): State<Arc<App>>,
    form: Submitted,
) -> Result<Response, Problem> {
    let back = frame::back(form.fields.get("back"), DEAD_LETTERS);
    let Some(asked) = asked(&form.fields)? else {
        return Ok(frame::done(back, "Nothing was selected."));
    };
    let owner = form.visitor.owner();
    let mut first = asked.filter.emails(owner);
    first.limit = SAMPLES;
    let (count, page) = tokio::try_join!(
        app.operator.count_dead(&asked.filter, owner),
        app.operator.list(first)
    )?;
    if count == 0 {
        let gone = "None of these is dead any more: there is nothing to do.";
        return Ok(frame::done(back, gone));
    }
    let letters = counted(count, "dead letter", "dead letters");
    let title = format!("{} {letters}?", verb(asked.action));
    let content = html! {
        h1 { (title) }
        p { (in_words(&asked.filter)) "." }
        section class="panel" {
            h2 { "What will happen" }
            (consequences(asked.action, count))
            (question(&form.visitor, &asked, count, back))
        }
        h2 { "Among them" }
        (table(&app, &page.emails))
        @if page.next.is_some() {
            p class="faint" { "… and " (number(count.saturating_sub(SAMPLES as u64))) " more." }
        }
    };
    frame::show(&app, &form.visitor, Section::DeadLetters, &title, &content).await
}

fn consequences(action: BulkAction, count: u64) -> Markup {
    html! {
        ul {
            @match action {
                BulkAction::Retry => {
                    li { "Each of them is tried again, with a fresh budget of attempts." }
                    li { "One that dies again is a dead letter again, and is not tried again by this." }
                }
                BulkAction::Discard => {
                    li { "Each of them is given up on for good and leaves this list." }
                    li { "They can be restored, one by one, until their retention ends." }
                }
            }
            li { "What dies from now on is not part of it." }
            li {
                "It goes on in the background, also over a restart. You can pause or cancel it"
                @if count > 1 { "; what was treated by then stays so" }
                "."
            }
            li { "One entry in the audit log says that it was you." }
        }
    }
}

fn question(visitor: &Visitor, asked: &Asked, count: u64, back: &str) -> Markup {
    let paced = asked.action == BulkAction::Retry && count > MANY;
    let preset = paced.then_some(100);
    html! {
        form method="post" action="/admin/operations" {
            (visitor.csrf_field())
            (filter_fields(&asked.filter))
            @if asked.filter.ids.is_empty() { input type="hidden" name="all" value="yes"; }
            div class="field" {
                label for="rate" { "Pace" }
                select id="rate" name="rate" {
                    option value="" { "As fast as it goes" }
                    @for pace in PACES {
                        option value=(pace) selected[preset == Some(pace)] {
                            (pace) " per second (about " (span(count.div_ceil(u64::from(pace)))) ")"
                        }
                    }
                }
                span class="hint" { "A slow pace spares the mail server that has just come back." }
            }
            div class="actions" {
                button class=(if asked.action == BulkAction::Retry { "first" } else { "danger" })
                    name="action" value=(asked.action) {
                    (verb(asked.action)) " " (counted(count, "dead letter", "dead letters"))
                }
                a class="button" href=(back) { "Leave them" }
            }
        }
    }
}

/// Begins.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    form: Submitted,
) -> Result<Response, Problem> {
    let Some(asked) = asked(&form.fields)? else {
        return Err(Problem::new(Kind::Invalid, "Nothing was selected."));
    };
    let new = NewOperation {
        id: OperationId::generate(),
        action: asked.action,
        filter: asked.filter,
        rate_per_second: asked.rate_per_second,
    };
    let actor = form.visitor.caller.actor();
    let operation = app.operator.begin_operation(new, &actor).await?;
    app.pulse.refresh().await;
    let to = format!("/admin/operations/{}", operation.id);
    let begun = counted(operation.total, "dead letter", "dead letters");
    Ok(frame::done(&to, &format!("Begun, over {begun}.")))
}
