//! A report for a terminal.

use std::fmt::Write as _;

use super::{Figure, Report};

/// The whole report.
pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(report, &mut text);
    text.truncate(text.trim_end().len());
    text
}

fn write_all(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text, "{}, {}", report.date, report.machine.text())?;
    let servers: Vec<String> = report
        .servers
        .iter()
        .map(|(name, what)| format!("{name} {what}"))
        .collect();
    if !servers.is_empty() {
        writeln!(text, "{}", servers.join("; "))?;
    }
    for section in &report.sections {
        writeln!(text, "\n{}", section.title)?;
        let lengths = section.figures.iter().map(|f| name(f).chars().count());
        let width = lengths.max().unwrap_or_default();
        for figure in &section.figures {
            line(figure, width, text)?;
        }
        for note in &section.notes {
            writeln!(text, "  note: {note}")?;
        }
        for claim in &section.claims {
            let verdict = if claim.held { "holds" } else { "DOES NOT HOLD" };
            let limit = claim.limit.text(&claim.unit);
            let rounds: Vec<String> = claim.rounds.iter().copied().map(short).collect();
            let rounds = match rounds.len() {
                0 | 1 => String::new(),
                _ => format!("  [{}]", rounds.join(", ")),
            };
            let seen = short(claim.seen);
            let what = &claim.what;
            writeln!(text, "  {verdict:<14}{what}: {seen} {limit}{rounds}")?;
        }
    }
    Ok(())
}

/// The kind of work, whose it is, and what it is.
fn name(figure: &Figure) -> String {
    let (kind, who) = (figure.kind.word(), figure.who.name());
    format!("{kind}: {who}, {}", figure.name)
}

fn line(figure: &Figure, width: usize, text: &mut String) -> std::fmt::Result {
    let name = name(figure);
    let (median, unit) = (number(figure.median()), &figure.unit);
    let spread = format!(
        "[{} .. {}]",
        number(figure.lowest()),
        number(figure.highest())
    );
    write!(text, "  {name:<width$} {median:>9} {unit:<8} {spread:<20}")?;
    if let Some(latency) = figure.latency {
        let (p50, p99, max) = (latency.p50_ms, latency.p99_ms, latency.max_ms);
        write!(
            text,
            " p50 {} p99 {} max {} ms;",
            short(p50),
            short(p99),
            short(max)
        )?;
    }
    for (what, bytes) in &figure.bytes_per_email {
        write!(text, " {what} {} B/email;", number(*bytes))?;
    }
    if !figure.processors.is_empty() {
        write!(text, " cpu % {}", processors(figure))?;
    }
    if let Some(note) = &figure.note {
        write!(text, " ({note})")?;
    }
    writeln!(text)
}

/// Who used how much of a core.
pub(super) fn processors(figure: &Figure) -> String {
    let shares = figure.processors.iter().filter(|(_, share)| *share >= 1.0);
    let parts: Vec<String> = shares
        .map(|(name, share)| format!("{name} {share:.0}"))
        .collect();
    parts.join(", ")
}

/// Digits that mean something, with commas between thousands.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() < 100.0 {
        return short(value);
    }
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}", if value < 0.0 { "-" } else { "" })
}

/// Two or three digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".to_owned(),
        size if size >= 100.0 => number(value),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let said = [0.7, 12.34, 999.6, 1234.5, 1_234_567.0, f64::NAN].map(number);
        assert_eq!(said, ["0.70", "12.3", "1,000", "1,234", "1,234,567", "–"]);
    }
}
