//! The ways out: how each does, what waits for it, and the switches of operators.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::way::{Condition, Way};
use posthaste_engine::operator::TransportView;

use super::email::button;
use super::frame::{self, Section};
use super::settings::limits;
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::body::{is_paused, is_troubled, state_of};
use crate::id::Named;
use crate::page::{countdown, counted, moment, number, per_second, pill};
use crate::problem::Problem;
use crate::route::{Switch, switch};

const HERE: &str = "/admin/transports";

/// The page.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    visitor.sees_everything()?;
    let views = app.operator.transports().await?;
    let now = app.operator.now();
    let content = html! {
        h1 { "Transports" }
        p class="faint" {
            "The ways out. One that fails too often is stopped: emails wait for it and spend no attempts, one at a time tests \
             it, and it takes up again slowly."
        }
        @for view in &views {
            section class="panel" aria-labelledby={ "way-" (view.name) } data-live={ "way-" (view.name) } {
                (transport(&visitor, view, now))
            }
        }
    };
    frame::show(&app, &visitor, Section::Transports, "Transports", &content).await
}

/// How a state looks.
const fn look(state: &str) -> (&'static str, &'static str) {
    match state.as_bytes() {
        b"flowing" => ("good", "✓"),
        b"stopped" => ("bad", "✕"),
        b"probing" => ("warn", "?"),
        b"ramping" => ("warn", "↑"),
        _ => ("odd", "‖"),
    }
}

fn state_pill(state: &str) -> Markup {
    let (tone, sign) = look(state);
    pill(tone, sign, state)
}

fn transport(visitor: &Visitor, view: &TransportView, now: Timestamp) -> Markup {
    let way = view.way.as_ref();
    let state = state_of(way, view.condition);
    html! {
        div class="head" {
            div {
                h2 id={ "way-" (view.name) } { (view.name) " " (state_pill(state)) }
                p { (in_words(view, now)) }
            }
            @if visitor.may_act() {
                div class="actions" { (switches(visitor, &view.name, way, view.condition)) }
            }
        }
        dl class="facts" {
            dt { "Waiting" } dd {
                (counted(view.waiting, "email", "emails"))
                @if let Some(oldest) = view.oldest_waiting { ", the oldest could have been tried " (moment(oldest, now)) }
            }
            @if let Some(way) = way.filter(|way| is_troubled(Some(way), view.condition)) {
                @if view.condition != Condition::Flowing { dt { "Since" } dd { (moment(way.since, now)) } }
                @if let Some(error) = &way.last_error { dt { "Last error" } dd { (error) } }
            }
            dt { "Limits" } dd { (limits(view.limits)) }
            dt { "Under way here" } dd { (number(u64::try_from(view.under_way).unwrap_or(u64::MAX))) }
            @if let Some(rate) = view.learned_rate {
                dt { "Slowed down" } dd { "Its provider asked for less: at most " (per_second(rate)) " from this process, more with time." }
            }
            dt { "Routes" } dd { @if view.routes.is_empty() { "none" } @else { (view.routes.join(", ")) } }
            dt { "Its provider" } dd {
                @if view.listens { "tells us later what became of emails" } @else { "tells us nothing later" }
            }
        }
        @if troubled_domains(view).next().is_some() { (domains(visitor, view, now)) }
    }
}

/// What its state means.
fn in_words(view: &TransportView, now: Timestamp) -> Markup {
    let way = view.way.as_ref();
    html! {
        @if let Some(who) = way.and_then(|way| way.paused_by.as_ref()) {
            "Paused by " (who) ": nothing goes by it until someone resumes it."
            @if view.condition == Condition::Stopped { " It is stopped, too." }
        } @else {
            @match view.condition {
                Condition::Flowing => "Everything goes.",
                Condition::Stopped => { "Nothing goes by it. " (next_probe(way, now)) },
                Condition::Probing => "One email tests it now; the others wait.",
                Condition::Ramping => {
                    "It takes up again"
                    @if let Some(rate) = view.ramp_rate { ": " (per_second(rate)) " now, more with every moment" }
                    "."
                }
            }
        }
    }
}

/// When one email tests a way that is stopped.
fn next_probe(way: Option<&Way>, now: Timestamp) -> Markup {
    html! {
        @match way.and_then(|way| way.next_probe_at) {
            Some(at) if at > now => { "Next probe " (countdown(at, now)) "." }
            _ => "The next email tests it.",
        }
    }
}

/// The buttons that fit a way.
fn switches(visitor: &Visitor, name: &str, way: Option<&Way>, condition: Condition) -> Markup {
    let to = |action: &str| format!("{HERE}/{name}/{action}");
    html! {
        @if is_paused(way) {
            (button(visitor, &to("resume"), "first", "Resume", ""))
        } @else {
            @if condition == Condition::Stopped { (button(visitor, &to("resume"), "", "Probe Now", "")) }
            (button(visitor, &to("pause"), "danger", "Pause", ""))
        }
    }
}

fn domains(visitor: &Visitor, view: &TransportView, now: Timestamp) -> Markup {
    html! {
        h3 { "Domains in trouble" }
        table class="list" {
            caption class="hidden" { "Destination domains that are in trouble by " (view.name) }
            thead { tr { @for name in ["Domain", "State", "Since", "Last error", ""] { th scope="col" { (name) } } } }
            tbody {
                @for (domain, condition, way) in troubled_domains(view) {
                    @let name = format!("{}@{domain}", view.name);
                    tr data-key=(name) {
                        td class="subject" { (domain) }
                        td {
                            (state_pill(state_of(Some(way), *condition)))
                            @if *condition == Condition::Stopped && way.paused_by.is_none() {
                                div class="small faint" { (next_probe(Some(way), now)) }
                            }
                        }
                        td data-label="Since" { (moment(way.since, now)) }
                        td data-label="Error" {
                            @if let Some(error) = &way.last_error { span class="clip small" { (error) } }
                        }
                        td class="actions" {
                            @if visitor.may_act() { (switches(visitor, &name, Some(way), *condition)) }
                        }
                    }
                }
            }
        }
    }
}

/// What is said above all else while mail cannot go as it should. Domains only for those who see
/// everyone's emails.
pub(super) fn banner(views: &[TransportView], with_domains: bool, now: Timestamp) -> Markup {
    html! {
        @for view in views.iter().filter(|view| is_in_trouble(view)) {
            @if view.waiting > 0 {
                p class="warning" role="status" {
                    a href=(HERE) { "Waiting for " (view.name) ": " (counted(view.waiting, "email", "emails")) }
                    "; " (outlook(view.way.as_ref(), view.condition, view.ramp_rate, now))
                }
            } @else {
                (trouble(&view.name, view.way.as_ref(), view.condition, view.ramp_rate, now))
            }
        }
        @for view in views.iter().filter(|_| with_domains) {
            @for (domain, condition, way) in troubled_domains(view) {
                (trouble(&format!("{domain} by {}", view.name), Some(way), *condition, None, now))
            }
        }
    }
}

/// What is said of a way in trouble of which it is not known that anything waits for it.
fn trouble(
    name: &str,
    way: Option<&Way>,
    condition: Condition,
    ramp_rate: Option<f64>,
    now: Timestamp,
) -> Markup {
    html! {
        p class="warning" role="status" {
            @match way.and_then(|way| way.paused_by.as_ref()) {
                Some(who) => a href=(HERE) { (name) " is paused by " (who) },
                None => {
                    a href=(HERE) { (name) " is " (condition) }
                    "; " (outlook(way, condition, ramp_rate, now))
                }
            }
        }
    }
}

/// What comes next for a way.
fn outlook(
    way: Option<&Way>,
    condition: Condition,
    ramp_rate: Option<f64>,
    now: Timestamp,
) -> Markup {
    html! {
        @match (way.and_then(|way| way.paused_by.as_ref()), condition) {
            (Some(who), _) => { "paused by " (who) }
            (None, Condition::Stopped) => {
                @match way.and_then(|way| way.next_probe_at) {
                    Some(at) if at > now => { "next probe " (countdown(at, now)) }
                    _ => "the next email probes it",
                }
            }
            (None, Condition::Probing) => "one email probes it now",
            (None, Condition::Ramping) => {
                "it takes up again"
                @if let Some(rate) = ramp_rate { ", " (per_second(rate)) " now" }
            }
            (None, Condition::Flowing) => {}
        }
    }
}

/// Whether mail cannot go by it as it should.
fn is_in_trouble(view: &TransportView) -> bool {
    is_troubled(view.way.as_ref(), view.condition)
}

/// The domains that are in trouble by it. Others have failed now and then.
fn troubled_domains(view: &TransportView) -> impl Iterator<Item = &(String, Condition, Way)> {
    let domains = view.domains.iter();
    domains.filter(|(_, condition, way)| is_troubled(Some(way), *condition))
}

/// How many transports are in trouble.
pub(super) fn trouble_count(views: &[TransportView]) -> u64 {
    let count = views.iter().filter(|view| is_in_trouble(view)).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Pause.
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Named(name): Named,
    form: Submitted,
) -> Result<Response, Problem> {
    let way = switch(&app, &form.visitor.caller, &name, Switch::Pause).await?;
    let told = format!("{way} is paused. Emails wait for it, or take another way.");
    Ok(frame::done(HERE, &told))
}

/// Resume, or test now.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Named(name): Named,
    form: Submitted,
) -> Result<Response, Problem> {
    let way = switch(&app, &form.visitor.caller, &name, Switch::Resume).await?;
    let told =
        format!("{way} takes up again, slowly; if it was stopped, one email tests it first.");
    Ok(frame::done(HERE, &told))
}
