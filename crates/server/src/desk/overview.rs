//! The first screen: does mail arrive, and if not, where does it stand?

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::message::MessageStatus;
use posthaste_core::status::Status;

use super::chart;
use super::frame::{self, Section};
use super::pulse::Numbers;
use super::transports;
use crate::access::Visitor;
use crate::app::App;
use crate::body::{seconds_since, success_rate};
use crate::page::{empty, number, span};
use crate::problem::Problem;

/// The overview.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let numbers = app.pulse.numbers(&app).await?;
    let history = app
        .operator
        .history(chart::STEP_MINUTES, chart::STEPS)
        .await?;
    let content = html! {
        h1 { "Overview" }
        div data-live="ways" { (transports::banner(&numbers.ways, visitor.owner().is_none(), numbers.at)) }
        div data-live="overview" {
            (state_of_things(&app, &numbers))
            div class="cards" { (cards(&numbers)) }
        }
        (chart::last_day(&history))
        div class="cards" data-live="lanes" { (email_queue(&numbers)) (messages(&numbers)) (inbox(&app)) }
    };
    frame::show(&app, &visitor, Section::Overview, "Overview", &content).await
}

/// All is well, or what is not, in a sentence.
fn state_of_things(app: &App, numbers: &Numbers) -> Markup {
    let (dead, uncertain) = (numbers.count(Status::Dead), numbers.count(Status::Unknown));
    if numbers.emails.accepted == 0 {
        let text = html! {
            @if app.serves_api {
                "Hand one in with " code { "POST /v1/emails" } " or " code { "posthaste send" } ", and watch it here."
            } @else { "What the application sends is seen here." }
        };
        return empty(false, "No email yet", &text);
    }
    if dead + uncertain + numbers.in_retry() == 0 && transports::trouble_count(&numbers.ways) == 0 {
        let text = html! { "No email is dead, uncertain or waiting for another attempt." };
        return empty(true, "All mail is delivered or on its way", &text);
    }
    html! {}
}

struct Card<'a> {
    label: &'a str,
    value: String,
    detail: String,
    tone: &'a str,
    link: Option<&'a str>,
    /// For tests and scripts.
    name: &'a str,
}

fn card(card: &Card<'_>) -> Markup {
    let inner = html! {
        div class="label" { (card.label) }
        div class="value" { (card.value) }
        div class="detail" { (card.detail) }
    };
    html! {
        @if let Some(link) = card.link {
            a class={ "card " (card.tone) } href=(link) id={ "card-" (card.name) } { (inner) }
        } @else {
            div class={ "card " (card.tone) } id={ "card-" (card.name) } { (inner) }
        }
    }
}

fn cards(numbers: &Numbers) -> Markup {
    let found = &numbers.emails;
    let (dead, uncertain) = (numbers.count(Status::Dead), numbers.count(Status::Unknown));
    let oldest = found
        .oldest_waiting
        .map(|due| seconds_since(due, numbers.at));
    let rate = success_rate(found);
    let tone = |n: u64, tone: &'static str| if n > 0 { tone } else { "" };
    let all = [
        Card {
            label: "In retry",
            value: number(numbers.in_retry()),
            detail: match numbers.parked() {
                0 => "failed, will be tried again".to_owned(),
                parked => format!("{} wait for a way out", number(parked)),
            },
            tone: tone(numbers.in_retry(), "warn"),
            link: Some("/admin/emails?status=failed,retry_queued"),
            name: "in-retry",
        },
        Card {
            label: "In the dead letter queue",
            value: number(dead),
            detail: format!("{} died in the last 24 h", number(found.dead_last_day)),
            tone: tone(dead, "bad"),
            link: Some("/admin/dead-letters"),
            name: "dead-letters",
        },
        Card {
            label: "Uncertain",
            value: number(uncertain),
            detail: "may have been delivered".to_owned(),
            tone: tone(uncertain, "odd"),
            link: Some("/admin/uncertain"),
            name: "uncertain",
        },
        Card {
            label: "Waiting",
            value: number(numbers.waiting()),
            detail: "for the first attempt".to_owned(),
            tone: "",
            link: Some("/admin/emails?status=pending,sending"),
            name: "waiting",
        },
        Card {
            label: "Oldest waiting",
            value: oldest.map_or_else(|| "–".to_owned(), span),
            detail: "since it became due".to_owned(),
            tone: tone(u64::from(oldest.is_some_and(|age| age > 300)), "warn"),
            link: None,
            name: "oldest-waiting",
        },
        Card {
            label: "Success rate, 24 h",
            value: rate.map_or_else(|| "–".to_owned(), percent),
            detail: "retries included".to_owned(),
            tone: match rate {
                Some(rate) if rate < 0.95 => "bad",
                Some(rate) if rate < 0.99 => "warn",
                Some(_) => "good",
                None => "",
            },
            link: None,
            name: "success-rate",
        },
        Card {
            label: "Sent, last hour",
            value: number(found.sent_last_hour),
            detail: format!("{} in the last 24 h", number(found.sent_last_day)),
            tone: "",
            link: Some("/admin/emails?status=sent"),
            name: "sent-hour",
        },
        Card {
            label: "Sent",
            value: number(numbers.count(Status::Sent)),
            detail: format!("{} ever accepted", number(found.accepted)),
            tone: "",
            link: Some("/admin/emails?status=sent"),
            name: "sent",
        },
    ];
    html! { @for one in &all { (card(one)) } }
}

/// A rate in percent. What is not whole never looks whole.
fn percent(rate: f64) -> String {
    if rate >= 1.0 {
        "100 %".to_owned()
    } else {
        format!("{:.1} %", (rate * 1000.0).floor() / 10.0)
    }
}

/// Seed 004's card: quiet while all is well.
fn email_queue(numbers: &Numbers) -> Markup {
    let waiting = numbers.waiting() + numbers.in_retry() + numbers.count(Status::Unknown);
    let failed = numbers.count(Status::Dead);
    let (value, detail, tone) = match (waiting, failed) {
        (0, 0) => (
            "Healthy".to_owned(),
            "nothing pending, nothing failed".to_owned(),
            "good",
        ),
        (waiting, 0) => (
            format!("{} pending", number(waiting)),
            "nothing failed".to_owned(),
            "warn",
        ),
        (waiting, failed) => (
            format!("{} failed", number(failed)),
            format!("{} pending", number(waiting)),
            "bad",
        ),
    };
    card(&Card {
        label: "Email queue",
        value,
        detail,
        tone,
        link: Some("/admin/email-queue"),
        name: "email-queue",
    })
}

fn messages(numbers: &Numbers) -> Markup {
    let count = |status| {
        numbers
            .messages
            .by_status
            .get(&status)
            .copied()
            .unwrap_or(0)
    };
    let (pending, review) = (count(MessageStatus::Pending), count(MessageStatus::Failed));
    card(&Card {
        label: "Messages of other services",
        value: format!("{} pending", number(pending)),
        detail: format!("{} in manual review", number(review)),
        tone: if review > 0 { "bad" } else { "" },
        link: Some("/admin/messages"),
        name: "messages",
    })
}

fn inbox(app: &App) -> Markup {
    html! {
        @if app.captures() {
            (card(&Card {
                label: "Way out",
                value: "Inbox".to_owned(),
                detail: "mail is captured here and goes nowhere: set SMTP_URL to send it".to_owned(),
                tone: "warn",
                link: Some("/admin/inbox"),
                name: "inbox",
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_below_one_never_looks_perfect() {
        let shown = [1.0, 0.999_99, 0.951, 0.0].map(percent);
        assert_eq!(shown, ["100 %", "99.9 %", "95.1 %", "0.0 %"]);
    }
}
