//! Which transports there are, and which of them the routes take. Secrets are not known here.

use maud::{Markup, html};
use posthaste_engine::ways::Choice;
use posthaste_engine::{Limits, Route, Ways};

use crate::page::per_second;

/// Transports and routes.
pub(super) fn part(ways: &Ways, has_api: bool) -> Markup {
    html! {
        section id="ways" {
            h2 { "Ways out" }
            p class="faint" {
                "Emails and templates choose a route; the route says by which transports they may go. "
                a href="/admin/transports" { "How the transports do" } "."
            }
            table class="list" {
                caption class="hidden" { "Transports" }
                thead { tr { @for name in ["Transport", "Limits", "Its provider"] { th scope="col" { (name) } } } }
                tbody {
                    @for transport in ways.transports() {
                        @let name = transport.name();
                        tr {
                            td class="subject" { (name) }
                            td data-label="Limits" { (limits(ways.limits(name))) }
                            td data-label="Its provider" {
                                @if ways.feedback(name).is_some() {
                                    @if has_api { "posts to " code { "/v1/provider-events/" (name) } }
                                    @else { "tells us later what became of emails" }
                                } @else { span class="faint" { "tells us nothing later" } }
                            }
                        }
                    }
                }
            }
            table class="list" {
                caption class="hidden" { "Routes" }
                thead { tr { @for name in ["Route", "By which transports"] { th scope="col" { (name) } } } }
                tbody {
                    @for (name, route) in ways.routes() {
                        tr { td class="subject" { (name) } td { (legs(route)) } }
                    }
                }
            }
        }
    }
}

/// What may go by a transport, in words.
pub(in crate::desk) fn limits(limits: Limits) -> String {
    let rate = limits.rate.map(per_second);
    let most = limits
        .concurrency
        .map(|most| format!("{most} at the same time"));
    match (rate, most) {
        (None, None) => "none".to_owned(),
        (Some(only), None) | (None, Some(only)) => only,
        (Some(rate), Some(most)) => format!("{rate}, {most}"),
    }
}

/// The transports of a route, in words.
fn legs(route: &Route) -> String {
    let legs = route.legs.iter();
    match route.choice {
        Choice::Ordered => {
            let names: Vec<_> = legs.map(|leg| leg.transport.as_str()).collect();
            names.join(", then ")
        }
        Choice::Weighted => {
            let total: u64 = route.legs.iter().map(|leg| u64::from(leg.weight)).sum();
            let share = |weight: u32| u64::from(weight) * 100 / total.max(1);
            let names: Vec<_> = legs
                .map(|leg| format!("{} ({} %)", leg.transport, share(leg.weight)))
                .collect();
            names.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_engine::ways::Leg;

    use super::*;

    #[test]
    fn routes_and_limits_are_said_in_words() {
        assert_eq!(legs(&Route::ordered(["a", "b"])), "a, then b");
        let leg = |transport: &str, weight| Leg {
            transport: transport.into(),
            weight,
        };
        let weighted = Route {
            choice: Choice::Weighted,
            legs: vec![leg("a", 3), leg("b", 1)],
        };
        assert_eq!(legs(&weighted), "a (75 %), b (25 %)");
        let both = Limits {
            rate: Some(10.0),
            concurrency: Some(4),
        };
        assert_eq!(limits(both), "10 per second, 4 at the same time");
        assert_eq!(limits(Limits::default()), "none");
    }
}
