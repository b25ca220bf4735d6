//! Writing to people and programs. A closed pipe ends the program quietly, not with a panic.

use std::io::Write as _;
use std::time::Duration;

use serde::Serialize;

/// A line of data.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// A word to whoever may be listening. A server does not end because nobody is.
pub(crate) fn announce(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// A value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) {
    line(&serde_json::to_string(value).unwrap_or_default());
}

/// A word to the person at the terminal.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Rows under headings, columns as wide as they need to be. Says so if there are none.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells
            .chain([headings[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let show = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        line(padded.join("  ").trim_end());
    };
    show(
        &headings
            .iter()
            .map(|heading| (*heading).to_owned())
            .collect::<Vec<_>>(),
    );
    for row in rows {
        show(row);
    }
    if rows.is_empty() {
        error("There are none.");
    }
}

/// A length of time in words: `22 h 21 min`, `1 min 30 s`.
pub(crate) fn span(length: Duration) -> String {
    const UNITS: [(&str, u128); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut rest = length.as_millis();
    let mut words = Vec::new();
    for (unit, size) in UNITS {
        if rest >= size {
            words.push(format!("{} {unit}", rest / size));
            rest %= size;
        }
    }
    if words.is_empty() {
        words.push("0 s".to_owned());
    }
    words.join(" ")
}

/// A text that fits into a column; control characters cannot reach the terminal.
pub(crate) fn short(text: &str, most: usize) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if clean.chars().count() <= most {
        return clean;
    }
    clean
        .chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_leaves_out_what_is_zero() {
        for (seconds, words) in [
            (0, "0 s"),
            (90, "1 min 30 s"),
            (1341 * 60, "22 h 21 min"),
            (86_400 + 60, "1 d 1 min"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), words);
        }
        assert_eq!(span(Duration::from_millis(1_200)), "1 s 200 ms");
    }
}
