//! What came of it: a table for people, JSON for programs, one verdict for both.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use posthaste_core::duration::HumanDuration;
use posthaste_core::way::BreakerRules;
use serde_json::{Value, json};

use super::options::Options;
use super::ramp;
use super::trial::Tale;

/// One more probe than planned may fall into the outage: time passes while emails are handed in.
const PROBES_MORE: u64 = 1;
/// Not more than so many lines of the ramp.
const MOST_LINES: usize = 90;

/// Everything that a run found.
pub(crate) struct Report {
    emails: u64,
    settings: Vec<(&'static str, Value)>,
    rules: BreakerRules,
    /// A second of the ramp in life.
    second: Duration,
    with: Tale,
    without: Tale,
}

impl Report {
    pub(super) fn new(options: &Options, with: Tale, without: Tale) -> Self {
        let footing = &options.footing;
        let mut settings = vec![
            ("emails", json!(options.emails)),
            ("outage in life", json!(options.outage.to_string())),
            ("scale", json!(options.scale)),
            ("scale of the ramp", json!(options.ramp_scale)),
            ("outage", json!(HumanDuration(options.outage()).to_string())),
            ("store", json!(footing.name())),
            ("processes", json!(footing.processes)),
            ("connections of each", json!(footing.connections)),
            ("clients", json!(options.clients)),
            ("body bytes", json!(options.body)),
            ("domains", json!(options.domains)),
            ("seed", json!(options.seed)),
        ];
        let variables = options.variables(true).into_iter();
        settings.extend(variables.map(|(name, value)| (name, json!(value))));
        Self {
            emails: options.emails as u64,
            settings,
            rules: options.rules(),
            second: Duration::from_secs(1) / options.ramp_scale,
            with,
            without,
        }
    }

    /// How many probes the rules plan for the outage.
    fn planned_probes(&self) -> u64 {
        ramp::probes(&self.rules, self.with.accept_time + self.with.away)
    }

    /// Why it failed; empty: it did not.
    fn failures(&self) -> Vec<String> {
        let with = &self.with;
        let mut failures = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                failures.push(what);
            }
        };
        let (dead, sent) = (with.census.status("dead"), with.census.status("sent"));
        must(
            with.accepted == self.emails,
            format!("{} of {} accepted", with.accepted, self.emails),
        );
        must(dead == 0, format!("{dead} dead"));
        must(
            sent == self.emails,
            format!("{sent} of {} sent", self.emails),
        );
        let (counted, spent) = (with.census.counted, with.census.spent);
        must(
            counted == 0 && spent == 0,
            format!("{counted} attempts counted, {spent} spent"),
        );
        let (probed, planned) = (with.census.probes, self.planned_probes());
        must(
            probed <= planned + PROBES_MORE,
            format!("{probed} attempts tested the way, {planned} were planned"),
        );
        if let Some((after, count, allowed)) = with.arrivals.excess(&self.rules) {
            let after = after.as_secs_f64();
            let what = format!("{count} arrived after {after:.2} s, {allowed:.0} were allowed");
            must(false, what);
        }
        for (name, tale) in [("with", with), ("without", &self.without)] {
            must(
                tale.most_copies <= 1,
                format!("{name} breakers: {} copies of one", tale.most_copies),
            );
            must(
                tale.verify.is_none(),
                format!("{name} breakers: posthaste verify found broken promises"),
            );
            if let Some(left) = &tale.not_drained {
                must(false, format!("{name} breakers: {left}"));
            }
        }
        failures
    }

    pub(super) fn passed(&self) -> bool {
        self.failures().is_empty()
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.passed() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    /// PASS or FAIL, and why.
    fn verdict(&self) -> String {
        match self.failures().as_slice() {
            [] => "PASS: the outage killed nothing and spent nothing; the way took up again slowly"
                .to_owned(),
            failures => format!("FAIL: {}", failures.join("; ")),
        }
    }

    /// Every number of one half with its name.
    fn rows(&self, tale: &Tale, has_breaker: bool) -> Vec<(String, Value)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: Value| rows.push((name.to_owned(), value));
        let census = &tale.census;
        row("accepted", json!(tale.accepted));
        row("sent", json!(census.status("sent")));
        row("dead", json!(census.status("dead")));
        for (reason, n) in &census.dead_by_reason {
            row(&format!("dead, {reason}"), json!(n));
        }
        row("attempts", json!(census.attempts));
        row("attempts that failed", json!(census.failed));
        row("attempts that counted", json!(census.counted));
        row("attempts spent in the end", json!(census.spent));
        row("most attempts of one email", json!(census.most_of_one));
        if has_breaker {
            let before = census.failed - census.probes;
            row("failed until all knew it stopped", json!(before));
            row("failed after that (probes)", json!(census.probes));
            row("probes by the rules", json!(self.planned_probes()));
        }
        row("emails at the mail server", json!(tale.at_sink));
        row("most copies of one email", json!(tale.most_copies));
        row("seconds to accept", seconds(tale.accept_time));
        row("seconds away after that", seconds(tale.away));
        let (first, last) = (tale.arrivals.first(), tale.arrivals.last());
        row("seconds until the first came", json!(first.map(seconds)));
        row("seconds until the last came", json!(last.map(seconds)));
        let most = tale.arrivals.per(self.second).into_iter().max();
        row("most in a second of the ramp", json!(most.unwrap_or(0)));
        row("verify", json!(tale.verify.is_none()));
        rows
    }

    /// What arrived in each second of the ramp, and what the transport said then.
    fn ramp(&self) -> String {
        let counts = self.with.arrivals.per(self.second);
        let mut text = format!(
            "{:>6} {:>9} {:>9}  {}",
            "second", "arrived", "in all", "transport"
        );
        let mut all = 0;
        for (place, count) in counts.iter().enumerate().take(MOST_LINES) {
            all += count;
            let (begin, end) = (
                self.second.as_secs_f64() * place as f64,
                self.second.as_secs_f64() * (place + 1) as f64,
            );
            let mut looks = self.with.looks.iter();
            let look = looks.find(|look| (begin..end).contains(&look.seconds));
            let said = look.map_or_else(String::new, |look| {
                let rate = look.ramp_rate.map(|rate| format!(", {rate:.0}/s"));
                let rate = rate.unwrap_or_default();
                format!("{}, {} wait{rate}", look.state, look.waiting)
            });
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{:>6} {count:>9} {all:>9}  {said}", place + 1);
        }
        text
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.settings {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            let _ = writeln!(text, "{name:34} {value:>14}");
        }
        let _ = writeln!(text, "\n{:34} {:>14} {:>14}", "breakers", "on", "off");
        let (with, without) = (self.rows(&self.with, true), self.rows(&self.without, false));
        let mut names: Vec<&String> = with.iter().map(|(name, _)| name).collect();
        let more = without.iter().map(|(name, _)| name);
        let more: Vec<_> = more.filter(|name| !names.contains(name)).collect();
        names.extend(more);
        let value = |rows: &[(String, Value)], wanted: &String| {
            let found = rows.iter().find(|(name, _)| name == wanted);
            found.map_or_else(String::new, |(_, value)| value.to_string())
        };
        for name in names {
            let (on, off) = (value(&with, name), value(&without, name));
            let _ = writeln!(text, "{name:34} {on:>14} {off:>14}");
        }
        let _ = writeln!(text, "\nbreakers on, after the mail server was back:");
        let _ = writeln!(text, "{}", self.ramp());
        for complaint in self.with.verify.iter().chain(&self.without.verify) {
            let _ = writeln!(text, "\n{complaint}");
        }
        let _ = write!(text, "\n{}", self.verdict());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let half = |tale: &Tale, has_breaker: bool| {
            let rows = self.rows(tale, has_breaker).into_iter();
            let mut object: serde_json::Map<_, _> =
                rows.map(|(name, value)| (key(&name), value)).collect();
            let ramp = tale.arrivals.per(self.second);
            object.insert("arrived_by_second".to_owned(), json!(ramp));
            let looks: Vec<_> = tale.looks.iter().map(super::trial::Look::json).collect();
            object.insert("looks".to_owned(), json!(looks));
            Value::Object(object)
        };
        let settings = self.settings.iter();
        let settings: serde_json::Map<_, _> = settings
            .map(|(name, value)| (key(name), value.clone()))
            .collect();
        json!({
            "what": "an outage of the only way out, with breakers and without",
            "settings": settings,
            "with_breakers": half(&self.with, true),
            "without_breakers": half(&self.without, false),
            "passed": self.passed(),
            "verdict": self.verdict(),
        })
        .to_string()
    }
}

fn key(name: &str) -> String {
    let plain = name.replace(['(', ')', ','], "");
    plain.replace(' ', "_").to_lowercase()
}

fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 100.0).round() / 100.0)
}
