//! What came of it: a table for people, JSON for programs, one verdict for both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::drain::Drained;
use super::live::Lived;
use super::memory::Memory;
use crate::amqp::QueueType;
use crate::figures::{Claim, Figure, Kind, Limit, Section, Who};

/// The whole loop must keep up with this share of the reference.
const SHARE: f64 = 0.5;
/// At half of that, all but one of a hundred messages may be so late.
const LATE_MS: f64 = 200.0;
/// Beside many messages that are not due everything may take so much longer.
const SLOWER: f64 = 1.5;

/// Everything that a run found.
#[derive(Default)]
pub(crate) struct Report {
    pub(super) facts: Value,
    pub(super) load_average: String,
    pub(super) queue_type: QueueType,
    /// By the type of the queue and the number of workers.
    pub(super) reference: BTreeMap<(&'static str, usize), Vec<f64>>,
    pub(super) drains: Vec<Drained>,
    pub(super) tries: Vec<Lived>,
    pub(super) lateness: Option<Lived>,
    /// Over all tries.
    pub(super) memory: Option<Memory>,
    /// Beside many messages that are not due, and without them in turns with that.
    pub(super) history: Vec<Drained>,
    pub(super) without_history: Vec<Drained>,
    /// What PostgreSQL says about the tries.
    pub(super) statements: Vec<Value>,
}

impl Report {
    /// The rate of the reference with as many workers as are best for it.
    pub(super) fn reference_rate(&self) -> Option<f64> {
        let same = |((name, _), _): &(&(&str, usize), &Vec<f64>)| *name == self.queue_type.name();
        let rates = self.reference.iter().filter(same);
        rates.map(|(_, rates)| median(rates)).max_by(f64::total_cmp)
    }

    /// The try with the highest rate that the loop kept up with.
    fn sustained(&self) -> Option<&Lived> {
        let kept_up = self.tries.iter().filter(|lived| lived.kept_up());
        kept_up.max_by(|a, b| a.put_back.total_cmp(&b.put_back))
    }

    /// How much slower a backlog is put back beside many messages that are not due, and how many
    /// more pages claiming reads. What others do to the machine only ever slows: so the best of
    /// each is compared, and pages instead of time.
    fn slower(&self) -> Option<(f64, Option<f64>)> {
        let rate = |drains: &[Drained]| drains.iter().map(|d| d.rate).max_by(f64::total_cmp);
        let drain = rate(&self.without_history)? / rate(&self.history)?;
        let pages = |drains: &[Drained]| {
            let claims = drains.iter().filter_map(|drained| drained.claims);
            claims.map(|claims| claims.pages).min_by(f64::total_cmp)
        };
        let pages = pages(&self.history).zip(pages(&self.without_history));
        Some((drain, pages.map(|(with, without)| with / without)))
    }

    /// What was to be shown, and whether it was.
    fn targets(&self) -> Vec<(String, bool)> {
        let mut targets = Vec::new();
        let mut target = |what: String, met: bool| targets.push((what, met));
        if let (Some(reference), false) = (self.reference_rate(), self.tries.is_empty()) {
            let share = self.sustained().map_or(0.0, |lived| lived.put_back) / reference;
            target(
                format!("the loop keeps up with {share:.2} of the reference (at least {SHARE})"),
                share >= SHARE,
            );
        }
        if let Some(lived) = &self.lateness {
            let late = lived.late_ms(0.99);
            let rate = lived.load.rate;
            target(
                format!("p99 is {late} ms late at {rate:.0}/s (less than {LATE_MS})"),
                late < LATE_MS && lived.kept_up(),
            );
            let (middle, last) = lived.memory.thirds();
            target(
                format!("memory stays: {middle:.1} MiB, then {last:.1} MiB (at most 5 % more)"),
                lived.memory.is_flat(),
            );
        }
        if let Some((drain, pages)) = self.slower() {
            let pages = pages.unwrap_or(1.0);
            target(
                format!("history: {drain:.2} as slow, {pages:.2} the pages (at most {SLOWER})"),
                drain <= SLOWER && pages <= SLOWER,
            );
        }
        let lived = || self.tries.iter().chain(&self.lateness);
        let wrong: u64 = lived().map(|l| l.missing + l.doubled + l.early()).sum();
        target(
            format!("{wrong} messages are missing, doubled or early (none)"),
            wrong == 0,
        );
        targets
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.targets().iter().all(|(_, met)| *met) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    /// For a report of several subcommands.
    pub(crate) fn section(&self) -> Section {
        let mut section = Section::titled("Messages of other services");
        let (kind, unit) = (Kind::Messages, "message/s");
        let queues = self.queue_type.name();
        for ((queue_type, workers), rates) in &self.reference {
            let name = format!("claimed and published, {queue_type} queues, {workers} workers");
            let figure = Figure::rate(kind, Who::Probe, &name, unit, rates.clone());
            section.figures.push(figure);
        }
        if let Some(last) = self.drains.last() {
            let rates = self.drains.iter().map(|drained| drained.rate).collect();
            let name = format!("a backlog put back, {queues} queues");
            let figure = Figure::rate(kind, Who::Posthaste, &name, unit, rates);
            section.figures.push(figure.with_usage(&last.usage));
        }
        if let Some(lived) = self.sustained() {
            let name = format!("handed in, kept and put back at the same time, {queues} queues");
            let rate = vec![lived.put_back];
            let figure = Figure::rate(kind, Who::Posthaste, &name, unit, rate);
            section.figures.push(figure.with_usage(&lived.usage));
        }
        if let (Some(reference), false) = (self.reference_rate(), self.tries.is_empty()) {
            let share = self.sustained().map_or(0.0, |lived| lived.put_back) / reference;
            let what = "messages through the whole loop, of the reference";
            let limit = Limit::AtLeast(SHARE);
            section
                .claims
                .push(Claim::of_value(what, share, "×", limit));
        }
        if let Some(lived) = &self.lateness {
            let what = format!("lateness p99 of messages at {:.0}/s", lived.load.rate);
            let (late, limit) = (lived.late_ms(0.99), Limit::AtMost(LATE_MS));
            section
                .claims
                .push(Claim::of_value(&what, late, "ms", limit));
        }
        section
    }

    /// Every number with its name.
    fn rows(&self) -> Vec<(String, Value)> {
        let mut rows = vec![("load average before".to_owned(), json!(self.load_average))];
        let mut row = |name: String, value: Value| rows.push((name, value));
        for ((queue_type, workers), rates) in &self.reference {
            let name = format!("reference, {queue_type}, {workers} workers, per s");
            row(name, spread(rates));
        }
        for (name, drains) in [
            ("drain", &self.drains),
            ("without history", &self.without_history),
            ("beside history", &self.history),
        ] {
            let rates: Vec<f64> = drains.iter().map(|drained| drained.rate).collect();
            let Some(last) = drains.last() else { continue };
            row(format!("{name}, per s"), spread(&rates));
            row(format!("{name}, % of a core"), json!(last.usage.percent()));
            row(
                format!("{name}, us per message"),
                json!(last.usage.per_message(last.messages)),
            );
            if let Some(claims) = last.claims {
                row(
                    format!("{name}, claiming"),
                    json!(format!(
                        "{:.1} us and {:.1} pages per message, {:.0} at a time",
                        claims.time_us, claims.pages, claims.batch
                    )),
                );
            }
        }
        if let Some(lived) = self.sustained() {
            row("sustained, per s".to_owned(), json!(lived.put_back.round()));
        }
        for (name, lived) in self.loads() {
            row(format!("{name}, result"), json!(lived.line()));
            row(format!("{name}, % of a core"), json!(lived.usage.percent()));
            row(
                format!("{name}, us per message"),
                json!(lived.usage.per_message(lived.messages)),
            );
        }
        if let Some(memory) = &self.memory {
            row(
                "memory, MiB".to_owned(),
                json!(format!(
                    "first {:.1}, last {:.1}, most {:.1}",
                    memory.first(),
                    memory.last(),
                    memory.most()
                )),
            );
        }
        rows
    }

    /// All loads with their names.
    fn loads(&self) -> impl Iterator<Item = (String, &Lived)> {
        let tries = self.tries.iter().enumerate();
        let tries = tries.map(|(number, lived)| (format!("try {}", number + 1), lived));
        let late = self.lateness.iter();
        tries.chain(late.map(|lived| ("lateness".to_owned(), lived)))
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.facts);
        for (name, value) in self.rows() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:38} {value}");
        }
        if !self.statements.is_empty() {
            text.push_str("\nwhere PostgreSQL's time went in the tries:\n");
        }
        for statement in &self.statements {
            let _ = writeln!(text, "  {statement}");
        }
        for (what, met) in self.targets() {
            let _ = write!(text, "\n{}: {what}", if met { "MET" } else { "MISSED" });
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let mut report = serde_json::Map::new();
        for (name, value) in self.rows() {
            let name = name.replace(", ", "_").replace(' ', "_");
            report.insert(name, value);
        }
        for (name, lived) in self.loads() {
            report.insert(name.replace(' ', "_"), lived.json());
        }
        report.insert("servers".to_owned(), self.facts.clone());
        report.insert("statements".to_owned(), json!(self.statements));
        let targets: BTreeMap<_, _> = self.targets().into_iter().collect();
        report.insert("passed".to_owned(), json!(targets.values().all(|met| *met)));
        report.insert("targets".to_owned(), json!(targets));
        Value::Object(report).to_string()
    }
}

impl Lived {
    /// In one line, for people.
    pub(super) fn line(&self) -> String {
        let [p50, p95, p99, most] = [0.5, 0.95, 0.99, 1.0].map(|share| self.late_ms(share));
        format!(
            "{:.0}/s for {} s: handed in {:.0}/s, put back {:.0}/s, late p50 {p50} p95 {p95} \
             p99 {p99} max {most} ms, {}",
            self.load.rate,
            self.load.time.as_secs(),
            self.offered,
            self.put_back,
            if self.kept_up() {
                "kept up"
            } else {
                "fell behind"
            },
        )
    }

    fn json(&self) -> Value {
        let (middle, last) = self.memory.thirds();
        json!({
            "rate": self.load.rate.round(),
            "seconds": self.load.time.as_secs_f64(),
            "handed_in_per_second": self.offered.round(),
            "put_back_per_second": self.put_back.round(),
            "p50_ms": self.late_ms(0.5),
            "p95_ms": self.late_ms(0.95),
            "p99_ms": self.late_ms(0.99),
            "max_ms": self.late_ms(1.0),
            "max_ms_by_second": self.latest,
            "kept_up": self.kept_up(),
            "missing": self.missing,
            "doubled": self.doubled,
            "early": self.early(),
            "memory_mib_middle_and_last_third": [middle, last],
        })
    }
}

/// A backlog in one line, for people.
pub(super) fn drain_line(drained: &Drained) -> String {
    let each = drained.usage.per_message(drained.messages);
    format!(
        "backlog put back at {:.0}/s; us per message: {each}",
        drained.rate
    )
}

/// How busy the machine is, as the kernel says.
pub(super) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The value in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (
        sorted.get(sorted.len().saturating_sub(1) / 2),
        sorted.get(sorted.len() / 2),
    ) {
        (Some(below), Some(above)) => (below + above) / 2.0,
        _ => 0.0,
    }
}

/// The median, with the least and the most.
fn spread(values: &[f64]) -> Value {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    json!(format!("{:.0} ({least:.0} .. {most:.0})", median(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
