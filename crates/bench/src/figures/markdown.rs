//! A report as tables for documents.

use std::fmt::Write as _;

use super::table::{number, processors, short};
use super::{Claim, Figure, Report, Section};

/// The whole report, beginning with headings of the second level.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(report, &mut text);
    text
}

fn write_all(report: &Report, text: &mut String) -> std::fmt::Result {
    let commit = report.commit.as_deref().unwrap_or("unknown");
    writeln!(text, "Made on {} by\n", report.date)?;
    writeln!(text, "    {}\n", report.command)?;
    let machine = report.machine.text();
    writeln!(text, "on {machine}; commit {commit}.")?;
    for (name, what) in &report.servers {
        writeln!(text, "{name} {what}.")?;
    }
    for section in &report.sections {
        writeln!(text, "\n## {}\n", section.title)?;
        figures(section, text)?;
        for note in &section.notes {
            writeln!(text, "\n{note}")?;
        }
        claims(&section.claims, text)?;
    }
    Ok(())
}

fn figures(section: &Section, text: &mut String) -> std::fmt::Result {
    let mut kind = None;
    let mut figures: Vec<&Figure> = section.figures.iter().collect();
    figures.sort_by_key(|figure| figure.kind);
    for figure in figures {
        if kind != Some(figure.kind) {
            if kind.is_some() {
                writeln!(text)?;
            }
            writeln!(
                text,
                "| {} | median | lowest .. highest | unit | p50 / p99 / max ms | bytes per email | processor, % of a core |",
                figure.kind.title()
            )?;
            writeln!(text, "|---|---:|---:|---|---:|---|---|")?;
            kind = Some(figure.kind);
        }
        row(figure, text)?;
    }
    Ok(())
}

fn row(figure: &Figure, text: &mut String) -> std::fmt::Result {
    let name = format!("{}, {}", figure.who.name(), figure.name);
    let note = figure.note.as_ref().map(|note| format!(" ({note})"));
    let name = cell(&format!("{name}{}", note.unwrap_or_default()));
    let latency = figure.latency.map(|latency| {
        let parts = [latency.p50_ms, latency.p99_ms, latency.max_ms].map(short);
        parts.join(" / ")
    });
    let bytes = figure.bytes_per_email.iter();
    let bytes: Vec<String> = bytes
        .map(|(what, n)| format!("{what} {}", number(*n)))
        .collect();
    writeln!(
        text,
        "| {name} | {} | {} .. {} | {} | {} | {} | {} |",
        number(figure.median()),
        number(figure.lowest()),
        number(figure.highest()),
        figure.unit,
        latency.unwrap_or_default(),
        bytes.join(", "),
        processors(figure)
    )
}

fn claims(claims: &[Claim], text: &mut String) -> std::fmt::Result {
    if claims.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n| claim | limit | seen | |\n|---|---:|---:|---|")?;
    for claim in claims {
        let verdict = if claim.held {
            "holds"
        } else {
            "**does not hold**"
        };
        let (what, limit) = (cell(&claim.what), claim.limit.text(&claim.unit));
        writeln!(
            text,
            "| {what} | {limit} | {} {} | {verdict} |",
            short(claim.seen),
            claim.unit
        )?;
    }
    Ok(())
}

/// Text that cannot end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
