//! A chart of the rates: horizontal bars in groups, legible on light and dark pages.

use std::fmt::Write as _;

use super::table::number;
use super::{Better, Figure, Kind, Report, Who};

const WIDTH: f64 = 1000.0;
/// Where bars begin; names end there.
const LEFT: f64 = 490.0;
/// How long the longest bar of a group is; its number is beside it.
const LONGEST: f64 = 400.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
const HEADING: f64 = 44.0;
const BOTTOM: f64 = 40.0;

/// In this order.
const KINDS: [Kind; 4] = [Kind::Live, Kind::Drain, Kind::Accept, Kind::Retries];

/// The chart of a report.
pub(super) fn svg(report: &Report) -> String {
    let groups: Vec<(Kind, Vec<&Figure>)> = KINDS
        .into_iter()
        .map(|kind| (kind, of_kind(report, kind)))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    let rows: usize = groups.iter().map(|(_, figures)| figures.len()).sum();
    let height = rows as f64 * ROW + groups.len() as f64 * HEADING + BOTTOM;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = draw(report, &groups, height, &mut text);
    text
}

/// The rates of a kind, ours first.
fn of_kind(report: &Report, kind: Kind) -> Vec<&Figure> {
    let is_rate = |f: &&Figure| f.kind == kind && f.better == Better::Higher;
    let mut figures: Vec<&Figure> = report.figures().filter(is_rate).collect();
    figures.retain(|figure| figure.median().is_finite());
    let rank = |who: &Who| match who {
        Who::Posthaste => 0,
        Who::Probe => 1,
        Who::Peer(_) => 2,
    };
    figures.sort_by(|a, b| {
        let by_rate = b.median().total_cmp(&a.median());
        rank(&a.who).cmp(&rank(&b.who)).then(by_rate)
    });
    figures
}

fn draw(
    report: &Report,
    groups: &[(Kind, Vec<&Figure>)],
    height: f64,
    text: &mut String,
) -> std::fmt::Result {
    writeln!(
        text,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="Rates of Posthaste beside other programs">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #3b4351 }}
.heading {{ font-weight: 600; font-size: 14px }}
.small {{ font-size: 11px; fill: #6b7482 }}
.posthaste {{ fill: #d9622b }} .probe {{ fill: #8a94a6 }} .peer {{ fill: #5b8fc7 }}
.spread {{ stroke: #6b7482; stroke-width: 1.5 }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #d5dae2 }} .small {{ fill: #98a2b3 }} .spread {{ stroke: #d5dae2 }} }}
</style>"##
    )?;
    let mut y = 0.0;
    for (kind, figures) in groups {
        let unit = &figures[0].unit;
        let heading = escaped(&format!("{} ({unit})", kind.title()));
        writeln!(
            text,
            r#"<text class="heading" x="0" y="{}">{heading}</text>"#,
            y + 28.0
        )?;
        y += HEADING;
        let most = figures.iter().map(|f| f.highest()).fold(0.0, f64::max);
        for figure in figures {
            bar(figure, y, LONGEST / most.max(f64::MIN_POSITIVE), text)?;
            y += ROW;
        }
    }
    let foot = format!(
        "{}; median of up to {} rounds, thin line: lowest to highest; {}",
        report.date,
        groups
            .iter()
            .flat_map(|(_, f)| f)
            .map(|f| f.runs.len())
            .max()
            .unwrap_or(0),
        report.machine.text()
    );
    let at = y + 24.0;
    writeln!(
        text,
        r#"<text class="small" x="0" y="{at}">{}</text>"#,
        escaped(&foot)
    )?;
    writeln!(text, "</svg>")
}

fn bar(figure: &Figure, y: f64, scale: f64, text: &mut String) -> std::fmt::Result {
    let class = match figure.who {
        Who::Posthaste => "posthaste",
        Who::Probe => "probe",
        Who::Peer(_) => "peer",
    };
    let length = |value: f64| (value * scale * 10.0).round() / 10.0;
    let (name, middle) = (label(figure), y + ROW / 2.0);
    let width = length(figure.median());
    let base = middle + 4.5;
    writeln!(
        text,
        r#"<text x="{}" y="{base}" text-anchor="end">{}</text>"#,
        LEFT - 10.0,
        escaped(&name)
    )?;
    let top = y + (ROW - BAR) / 2.0;
    writeln!(
        text,
        r#"<rect class="{class}" x="{LEFT}" y="{top}" width="{width}" height="{BAR}" rx="2"/>"#
    )?;
    let (low, high) = (
        LEFT + length(figure.lowest()),
        LEFT + length(figure.highest()),
    );
    writeln!(
        text,
        r#"<line class="spread" x1="{low}" y1="{middle}" x2="{high}" y2="{middle}"/>"#
    )?;
    let (beside, median) = (high + 8.0, number(figure.median()));
    writeln!(text, r#"<text x="{beside}" y="{base}">{median}</text>"#)
}

/// Names that are too long for the space lose their end.
fn label(figure: &Figure) -> String {
    const MOST: usize = 70;
    let name = format!("{}, {}", figure.who.name(), figure.name);
    if name.chars().count() <= MOST {
        return name;
    }
    let kept: String = name.chars().take(MOST - 1).collect();
    format!("{}…", kept.trim_end())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::Section;

    fn report() -> Report {
        let peer =
            Who::Peer("R&D <\"mail\"> with a name that is far too long for the chart".into());
        let mut section = Section::titled("x");
        for (who, rate) in [
            (peer, 450.0),
            (Who::Posthaste, 9_000.0),
            (Who::Probe, 10_000.0),
        ] {
            let runs = vec![rate * 0.9, rate, rate * 1.1];
            section
                .figures
                .push(Figure::rate(Kind::Live, who, "SQLite", "email/s", runs));
        }
        Report::new(vec![section], BTreeMap::new())
    }

    #[test]
    fn every_element_of_the_chart_is_closed_and_every_text_escaped() {
        let svg = svg(&report());
        let mut open = Vec::new();
        for piece in svg.split('<').skip(1) {
            let (tag, _) = piece.split_once('>').expect("a tag ends");
            assert!(
                !piece
                    .replace("&amp;", "")
                    .replace("&lt;", "")
                    .replace("&gt;", "")
                    .replace("&quot;", "")
                    .contains('&'),
                "{piece}"
            );
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap_or_default().to_owned());
            }
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        }
        assert!(open.is_empty(), "{open:?} is not closed");
    }

    #[test]
    fn our_bar_comes_first_and_the_longest_fits() {
        let svg = svg(&report());
        let bars: Vec<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<rect"))
            .collect();
        assert!(bars[0].contains("\"posthaste\"") && bars[1].contains("\"probe\""));
        for bar in bars {
            let width = bar
                .split("width=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let width: f64 = width.and_then(|w| w.parse().ok()).expect("a width");
            assert!(width <= LONGEST, "{bar}");
        }
    }

    #[test]
    fn a_report_without_rates_is_an_empty_chart() {
        let svg = svg(&Report::new(Vec::new(), BTreeMap::new()));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }
}
