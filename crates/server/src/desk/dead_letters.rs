//! Dead letters: by what they died of, one by one, and what was discarded of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::operation::{BulkAction, DeadFilter};
use posthaste_core::port::{DeadGroup, EmailFilter};
use posthaste_core::status::Status;

use super::bulk::filter_fields;
use super::email::{button, is_expired, retry_button};
use super::emails::heading;
use super::frame::{self, Section};
use super::pulse::Numbers;
use super::settings::configuration::kept;
use crate::access::Visitor;
use crate::app::App;
use crate::page::{address, counted, empty, full, moment, number, pager};
use crate::problem::Problem;
use crate::query::Parameters;

const HERE: &str = "/admin/dead-letters";
const DISCARDED: &str = "/admin/dead-letters/discarded";

/// Dead letters in groups, and the plain list.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let filter = parameters.dead_filter(visitor.owner())?;
    let numbers = app.pulse.numbers(&app).await?;
    let asked = asked_for(&filter);
    let is_filtered = asked != DeadFilter::default();
    let owner = visitor.owner();
    let groups = async {
        // They are of no use on the pages after the first.
        match filter.after {
            Some(_) => Ok(Vec::new()),
            None => app.operator.dead_groups(owner).await,
        }
    };
    let (page, groups) = tokio::try_join!(app.operator.list(filter.clone()), groups)?;
    let of_group = DeadFilter {
        fingerprint: asked.fingerprint.clone(),
        ..DeadFilter::default()
    };
    let group = groups
        .iter()
        .find(|group| Some(&group.fingerprint) == asked.fingerprint.as_ref());
    let count = match group {
        Some(group) if asked == of_group => group.count,
        _ if is_filtered || owner.is_some() => app.operator.count_dead(&asked, owner).await?,
        _ => numbers.count(Status::Dead),
    };
    let link = |after: &str| link(HERE, &filter, after);
    let next = page.next.map(|id| link(&id.to_string()));
    let newest = filter.after.map(|_| link(""));
    let shown = Shown::of(&app, &visitor, &page.emails, link("")).await?;
    let is_well = page.emails.is_empty() && groups.is_empty() && !is_filtered;
    let content = html! {
        h1 { "Dead letters" }
        p class="faint" {
            "Emails that were given up, for someone to decide about."
            @if let Some(kept) = kept(&app.configuration, "dead") {
                " Without a decision they are removed after " (kept) "."
            }
        }
        (tabs(&numbers, Status::Dead))
        @if is_well && filter.after.is_none() {
            (empty(true, "No dead letters", &html! { "Every email was delivered, or is still being tried." }))
        } @else {
            @if !groups.is_empty() { (shown.groups(&groups, &filter)) }
            h2 { "One by one" }
            (filters(HERE, &filter, is_filtered))
            @if page.emails.is_empty() {
                (empty(false, "No dead letter fits", &html! {
                    "Nothing died that fits these filters. " a href=(HERE) { "Show all" }
                }))
            } @else {
                @if visitor.may_act() { (shown.bulk(&asked, count)) }
                (shown.table(&page.emails))
                (pager(newest.as_deref(), next.as_deref()))
            }
        }
    };
    frame::show(
        &app,
        &visitor,
        Section::DeadLetters,
        "Dead letters",
        &content,
    )
    .await
}

/// What was discarded, and can be taken back.
pub(super) async fn discarded(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let mut filter = parameters.dead_filter(visitor.owner())?;
    filter.statuses = vec![Status::Discarded];
    let numbers = app.pulse.numbers(&app).await?;
    let page = app.operator.list(filter.clone()).await?;
    let is_filtered = asked_for(&filter) != DeadFilter::default();
    let link = |after: &str| link(DISCARDED, &filter, after);
    let next = page.next.map(|id| link(&id.to_string()));
    let newest = filter.after.map(|_| link(""));
    let shown = Shown::of(&app, &visitor, &page.emails, link("")).await?;
    let content = html! {
        h1 { "Discarded" }
        p class="faint" {
            "Dead letters that someone gave up on for good. They can be restored until their retention ends."
        }
        (tabs(&numbers, Status::Discarded))
        @if page.emails.is_empty() && !is_filtered {
            (empty(false, "Nothing is discarded", &html! { "What you discard is kept here for a while." }))
        } @else {
            (filters(DISCARDED, &filter, is_filtered))
            @if page.emails.is_empty() {
                (empty(false, "No discarded email fits", &html! { a href=(DISCARDED) { "Show all" } }))
            } @else {
                (shown.table(&page.emails))
                (pager(newest.as_deref(), next.as_deref()))
            }
        }
    };
    frame::show(&app, &visitor, Section::DeadLetters, "Discarded", &content).await
}

/// The part of a list's filter that an operation can have.
fn asked_for(filter: &EmailFilter) -> DeadFilter {
    DeadFilter {
        ids: Vec::new(),
        fingerprint: filter.fingerprint.clone(),
        template: filter.template.clone(),
        to: filter.to.clone(),
        q: filter.q.clone(),
        since: filter.since,
    }
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

fn link(path: &str, filter: &EmailFilter, after: &str) -> String {
    let since = filter.since.map(|at| at.to_string()).unwrap_or_default();
    let parameters = [
        ("fingerprint", text(filter.fingerprint.as_ref())),
        ("q", text(filter.q.as_ref())),
        ("to", text(filter.to.as_ref())),
        ("template", text(filter.template.as_ref())),
        ("since", since.as_str()),
        ("after", after),
    ];
    address(path, &parameters)
}

fn tabs(numbers: &Numbers, chosen: Status) -> Markup {
    let tabs = [
        (HERE, "Dead", Status::Dead),
        (DISCARDED, "Discarded", Status::Discarded),
    ];
    html! {
        nav class="tabs" aria-label="States" {
            @for (path, name, status) in tabs {
                a href=(path) aria-current=[(status == chosen).then_some("true")] {
                    (name) " "
                    span class="faint" data-live={ "count-" (name) } { (number(numbers.count(status))) }
                }
            }
        }
    }
}

fn filters(path: &str, filter: &EmailFilter, is_filtered: bool) -> Markup {
    html! {
        form class="filters" method="get" action=(path) role="search" {
            @if let Some(name) = &filter.fingerprint { input type="hidden" name="fingerprint" value=(name); }
            @if let Some(since) = filter.since { input type="hidden" name="since" value=(since); }
            label {
                "Search"
                input type="search" name="q" value=(text(filter.q.as_ref())) size="28"
                    placeholder="id, key, address, start of subject";
            }
            label { "To" input type="text" inputmode="email" name="to" value=(text(filter.to.as_ref())) size="18"; }
            label { "Template" input name="template" value=(text(filter.template.as_ref())) size="14"; }
            button { "Show" }
            @if is_filtered { a class="button" href=(path) { "Clear" } }
        }
    }
}

/// A page as someone sees it.
struct Shown<'a> {
    app: &'a App,
    visitor: &'a Visitor,
    /// Where its buttons lead back to.
    back: String,
    /// The attempts of the emails on it.
    attempts: BTreeMap<EmailId, Vec<AttemptRecord>>,
}

impl<'a> Shown<'a> {
    async fn of(
        app: &'a App,
        visitor: &'a Visitor,
        emails: &[EmailRecord],
        back: String,
    ) -> Result<Self, Problem> {
        let ids: Vec<_> = emails.iter().map(|email| email.id).collect();
        Ok(Self {
            attempts: app.operator.attempts(&ids).await?,
            app,
            visitor,
            back,
        })
    }

    fn groups(&self, groups: &[DeadGroup], filter: &EmailFilter) -> Markup {
        let now = self.app.operator.now();
        let chosen = filter.fingerprint.as_deref();
        let rows = groups
            .iter()
            .filter(|group| chosen.is_none_or(|chosen| chosen == group.fingerprint));
        html! {
            h2 { "By what they died of" }
            table class="list" {
                caption class="hidden" { "Groups of dead letters, most first" }
                thead {
                    tr {
                        th scope="col" class="number" { "Emails" }
                        @for name in ["What they died of", "First", "Last", ""] { th scope="col" { (name) } }
                    }
                }
                tbody { @for group in rows { (self.group(group, now)) } }
            }
            @if chosen.is_some() { p { a href=(HERE) { "Show all groups" } } }
        }
    }

    fn group(&self, group: &DeadGroup, now: Timestamp) -> Markup {
        let name = &group.fingerprint;
        let members = address(HERE, &[("fingerprint", name)]);
        let which = DeadFilter {
            fingerprint: Some(name.clone()),
            ..DeadFilter::default()
        };
        html! {
            tr data-key={ "group-" (name) } {
                td class="number" data-label="Emails" data-live={ "group-count-" (name) } { (number(group.count)) }
                td data-live={ "group-sample-" (name) } { a class="clip" href=(members) { (group.sample) } }
                td data-label="First" { (moment(group.first_seen, now)) }
                td data-label="Last" data-live={ "group-last-" (name) } { (moment(group.last_seen, now)) }
                td class="actions" {
                    @if self.visitor.may_act() {
                        (self.of_all(BulkAction::Retry, &which, "Retry group", ""))
                        (self.of_all(BulkAction::Discard, &which, "Discard group", "danger"))
                    }
                }
            }
        }
    }

    /// A button that asks whether to treat all that match.
    fn of_all(&self, action: BulkAction, which: &DeadFilter, name: &str, class: &str) -> Markup {
        html! {
            form method="post" action="/admin/operations/confirm" {
                (self.visitor.csrf_field())
                (filter_fields(which))
                input type="hidden" name="all" value="yes";
                input type="hidden" name="back" value=(self.back);
                button class=(class) name="action" value=(action) { (name) }
            }
        }
    }

    /// What is done with selected rows. The boxes of the rows belong to this form.
    fn bulk(&self, asked: &DeadFilter, count: u64) -> Markup {
        html! {
            form id="bulk" class="bulk" method="post" action="/admin/operations/confirm" {
                (self.visitor.csrf_field())
                (filter_fields(asked))
                input type="hidden" name="back" value=(self.back);
                label class="nowrap" {
                    input type="checkbox" name="all" value="yes";
                    " Select all " span data-live="matching" { (number(count)) } " matching"
                }
                button name="action" value="retry" { "Retry selected" }
                button class="danger" name="action" value="discard" { "Discard selected" }
                span class="faint small" data-selected role="status" {}
            }
        }
    }

    fn table(&self, emails: &[EmailRecord]) -> Markup {
        let now = self.app.operator.now();
        let is_dead = emails
            .first()
            .is_some_and(|one| one.state.status == Status::Dead);
        let selects = is_dead && self.visitor.may_act();
        html! {
            table class="list" {
                caption class="hidden" { "Emails, newest first" }
                thead {
                    tr {
                        @if selects {
                            th scope="col" {
                                input type="checkbox" data-select-all hidden aria-label="Select all on this page";
                            }
                        }
                        @for name in ["Email", "Why", "Attempts", "Given up", ""] { th scope="col" { (name) } }
                    }
                }
                tbody { @for email in emails { (self.row(email, selects, now)) } }
            }
        }
    }

    /// How many, and when each began.
    fn attempts(&self, email: &EmailRecord) -> Markup {
        let count = counted(u64::from(email.state.attempt_number), "attempt", "attempts");
        let began = self.attempts.get(&email.id).map_or(&[][..], Vec::as_slice);
        html! {
            @if began.is_empty() { (count) } @else {
                details class="compact" {
                    summary { (count) }
                    ol class="small" {
                        @for attempt in began {
                            li value=(attempt.number) { time datetime=(attempt.started_at) { (full(attempt.started_at)) } }
                        }
                    }
                }
            }
        }
    }

    fn row(&self, email: &EmailRecord, selects: bool, now: Timestamp) -> Markup {
        let state = &email.state;
        let why = state.dead_reason.map(|reason| reason.as_str());
        let subject = &email.summary.subject;
        html! {
            tr data-key=(email.id) {
                @if selects {
                    td class="select" {
                        input type="checkbox" name="id" value=(email.id) form="bulk"
                            aria-label={ "Select " (crate::page::subject_or(Some(subject))) };
                    }
                }
                td { (heading(email)) }
                td data-label="Why" {
                    span class="small" { (why.unwrap_or_default()) }
                    @if let Some(error) = &state.last_error { div class="clip small faint" { (error) } }
                }
                td data-label="Attempts" { (self.attempts(email)) }
                td data-label="Given up" { (moment(state.finished_at.unwrap_or(email.created_at), now)) }
                td class="actions" data-live={ "actions-" (email.id) } {
                    @if self.visitor.may_act() { (self.buttons(email, now)) }
                }
            }
        }
    }

    fn buttons(&self, email: &EmailRecord, now: Timestamp) -> Markup {
        let base = format!("/admin/emails/{}", email.id);
        let to = |action: &str| format!("{base}/{action}");
        let button = |action: &str, class: &str, name: &str| {
            button(self.visitor, &to(action), class, name, &self.back)
        };
        html! {
            @if email.state.status == Status::Dead {
                @if email.erased_at.is_none() {
                    (retry_button(self.visitor, &to("retry"), "", "Retry Now", &self.back, is_expired(email, now)))
                }
                (button("discard", "danger", "Discard"))
            } @else {
                (button("restore", "", "Restore"))
            }
        }
    }
}
