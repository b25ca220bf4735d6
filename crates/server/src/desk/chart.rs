//! What happened in the last 24 hours, as a picture and as a table.

use maud::{Markup, PreEscaped, html};
use posthaste_core::Timestamp;
use posthaste_core::port::HistoryStep;

use crate::page::{counted, number};

/// The chart has so many steps of so many minutes: 24 hours.
pub(super) const STEPS: u32 = 48;
pub(super) const STEP_MINUTES: u32 = 30;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// The last 24 hours.
pub(super) fn last_day(steps: &[HistoryStep]) -> Markup {
    let sums = steps.iter().fold((0, 0, 0), |(sent, failed, dead), step| {
        (sent + step.sent, failed + step.failed, dead + step.dead)
    });
    html! {
        section class="panel" aria-labelledby="chart-title" {
            div class="head" {
                h2 id="chart-title" { "The last 24 hours" }
                div data-live="legend" { (legend(sums)) }
            }
            div class="scroll newest-first" data-live="chart" { (picture(steps)) }
            details {
                summary { "The numbers as a table" }
                (table(steps))
            }
        }
    }
}

fn legend((sent, failed, dead): (u64, u64, u64)) -> Markup {
    let entry = |class: &str, text: String| {
        html! {
            li {
                svg class="chart" viewBox="0 0 10 10" aria-hidden="true" {
                    rect class=(class) x="0.5" y="0.5" width="9" height="9" {}
                }
                (text)
            }
        }
    };
    html! {
        ul class="legend" {
            (entry("sent", format!("{} sent", number(sent))))
            (entry("failed", format!("{} to be retried", counted(failed, "failure", "failures"))))
            (entry("dead", format!("{} dead", number(dead))))
        }
    }
}

/// A round number that nothing is above, and a quarter of which is a whole number.
fn ceiling(most: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for factor in [4, 8, 20, 40] {
            if let Some(top) = unit.checked_mul(factor)
                && top >= most
            {
                return top;
            }
        }
        match unit.checked_mul(10) {
            Some(next) => unit = next,
            None => return most,
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn picture(steps: &[HistoryStep]) -> Markup {
    let most = steps
        .iter()
        .map(|step| step.sent + step.failed + step.dead)
        .max();
    let top = ceiling(most.unwrap_or(0));
    let plot = HEIGHT - TOP - BOTTOM;
    let height = |n: u64| n as f64 / top as f64 * plot;
    let step_width = (WIDTH - LEFT) / steps.len().max(1) as f64;
    let base = HEIGHT - BOTTOM;
    html! {
        svg class="chart" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label="Sent, failed and dead emails per half hour; the table below has the numbers" {
            defs {
                pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect class="hatch-ground" width="5" height="5" {}
                    line class="hatch" x1="0" y1="0" x2="0" y2="5" {}
                }
            }
            @for quarter in 0..=4_u64 {
                @let value = top / 4 * quarter;
                @let y = base - height(value);
                line class="grid" x1=(LEFT) x2=(WIDTH) y1=(px(y)) y2=(px(y)) {}
                text x=(LEFT - 6.0) y=(px(y + 4.0)) text-anchor="end" { (number(value)) }
            }
            @for (index, step) in steps.iter().enumerate() {
                @let x = LEFT + index as f64 * step_width;
                @let parts = [("dead", step.dead), ("failed", step.failed), ("sent", step.sent)];
                g {
                    rect class="hover" x=(px(x)) y=(TOP) width=(px(step_width)) height=(px(plot)) {
                        // SVG's own tooltip.
                        (PreEscaped("<title>")) (words(step)) (PreEscaped("</title>"))
                    }
                    @for (class, y, tall) in stacked(base, &parts, height) {
                        rect class=(class) x=(px(x + step_width * 0.12)) y=(px(y)) rx="1"
                            width=(px(step_width * 0.76)) height=(px(tall)) pointer-events="none" {}
                    }
                }
                @if index % 6 == 0 {
                    text x=(px(x)) y=(HEIGHT - 7.0) { (clock(step.from)) }
                }
            }
        }
    }
}

/// Where each part of a bar begins, and how tall it is; from the bottom up.
fn stacked<'a>(
    base: f64,
    parts: &[(&'a str, u64)],
    height: impl Fn(u64) -> f64,
) -> Vec<(&'a str, f64, f64)> {
    let mut y = base;
    let mut bars = Vec::new();
    for (class, n) in parts.iter().filter(|(_, n)| *n > 0) {
        // One dead email among a thousand is what people look for: never too small to see.
        let tall = height(*n).max(2.0);
        y -= tall;
        bars.push((*class, y, tall));
    }
    bars
}

/// A coordinate with a tenth, which is as much as anyone can see.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M").to_string()
}

fn words(step: &HistoryStep) -> String {
    format!(
        "from {} UTC: {} accepted, {} sent, {} failed and to be retried, {} dead",
        clock(step.from),
        number(step.accepted),
        number(step.sent),
        number(step.failed),
        number(step.dead)
    )
}

fn table(steps: &[HistoryStep]) -> Markup {
    html! {
        div class="scroll" {
            table {
                caption class="hidden" { "Emails per half hour" }
                thead {
                    tr {
                        th scope="col" { "From (UTC)" }
                        @for name in ["Accepted", "Sent", "Failed", "Dead"] {
                            th scope="col" class="number" { (name) }
                        }
                    }
                }
                tbody data-live="chart-table" {
                    @for step in steps.iter().rev() {
                        tr {
                            th scope="row" { (clock(step.from)) }
                            @for n in [step.accepted, step.sent, step.failed, step.dead] {
                                td class="number" { (number(n)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_round_and_never_too_small() {
        for (most, top) in [
            (0, 4),
            (3, 4),
            (5, 8),
            (9, 20),
            (21, 40),
            (41, 80),
            (100, 200),
        ] {
            assert_eq!(ceiling(most), top, "{most}");
        }
        assert_eq!(ceiling(1_000_001), 2_000_000);
    }

    #[test]
    fn a_single_dead_email_is_seen_among_a_million() {
        let bars = stacked(200.0, &[("dead", 1), ("sent", 1_000_000)], |n| {
            n as f64 / 10_000.0
        });
        assert!(bars[0].2 >= 2.0);
        assert_eq!(bars.len(), 2);
    }
}
