//! What came of it: a table for people, JSON for programs, one verdict for both.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::options::Options;
use crate::rig::quantile;

/// All but one of a hundred emails may take so many times as long.
const RATIO: f64 = 1.2;

/// The rounds of one kind.
#[derive(Default)]
struct Rounds {
    /// All times of each round in milliseconds, sorted.
    times: Vec<Vec<f64>>,
}

impl Rounds {
    /// This quantile of each round.
    fn each(&self, share: f64) -> Vec<f64> {
        let rounds = self.times.iter();
        rounds.map(|times| quantile(times, share)).collect()
    }

    /// The one in the middle of these.
    fn middle(&self, share: f64) -> f64 {
        let mut each = self.each(share);
        each.sort_by(f64::total_cmp);
        let half = each.len() / 2;
        match each.len() % 2 {
            1 => each[half],
            _ if each.is_empty() => f64::NAN,
            _ => f64::midpoint(each[half - 1], each[half]),
        }
    }

    /// This quantile of all rounds together.
    fn together(&self, share: f64) -> f64 {
        let mut all = self.times.concat();
        all.sort_by(f64::total_cmp);
        quantile(&all, share)
    }
}

/// Everything that a run found.
pub(crate) struct Report {
    settings: Vec<(&'static str, Value)>,
    without: Rounds,
    with: Rounds,
    /// How many emails to slow domains the mail server has seen.
    pub(super) slow_arrived: u64,
    /// How many wait for them in the end.
    pub(super) slow_waiting: u64,
    pub(super) duplicates: u64,
    /// What `posthaste verify` complains about.
    pub(super) complaints: Vec<String>,
}

impl Report {
    pub(super) fn new(options: &Options) -> Self {
        let footing = &options.footing;
        Self {
            settings: vec![
                ("fast domains", json!(options.domains)),
                ("emails per second to them", json!(options.rate)),
                ("time of a round", json!(options.time.to_string())),
                ("rounds of each kind", json!(options.rounds)),
                ("both at the same time", json!(options.together)),
                ("its emails are left out without", json!(options.leave_out)),
                ("slow domains", json!(options.slow_domains)),
                ("time of a slow message", json!(options.slow.to_string())),
                ("slow emails in a round", json!(options.slow_emails)),
                ("store", json!(footing.name())),
                ("processes", json!(footing.processes)),
                ("connections of each", json!(footing.connections)),
                ("clients", json!(options.clients)),
                ("body bytes", json!(options.body)),
                ("seed", json!(options.seed)),
            ],
            without: Rounds::default(),
            with: Rounds::default(),
            slow_arrived: 0,
            slow_waiting: 0,
            duplicates: 0,
            complaints: Vec::new(),
        }
    }

    /// Enters a round, and says in a line what it was like.
    pub(super) fn enter(&mut self, is_slow: bool, times: Vec<f64>) -> String {
        let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
        let (rounds, name) = match is_slow {
            false => (&mut self.without, "without"),
            true => (&mut self.with, "with"),
        };
        rounds.times.push(times);
        format!("{name} the slow domain: p50 {p50:.1} ms, p99 {p99:.1} ms")
    }

    /// How many times as long it takes with the slow domain: the rounds in the middle compared.
    fn ratio(&self, share: f64) -> f64 {
        self.with.middle(share) / self.without.middle(share)
    }

    /// Why it failed; empty: it did not.
    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let ratio = self.ratio(0.99);
        // Not a number is not within anything.
        let is_within = ratio <= RATIO;
        if !is_within {
            failures.push(format!("p99 is {ratio:.2} times as long (at most {RATIO})"));
        }
        if self.duplicates > 0 {
            failures.push(format!("{} emails came twice", self.duplicates));
        }
        if !self.complaints.is_empty() {
            failures.push("posthaste verify found broken promises".to_owned());
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
            [] => format!(
                "PASS: with the slow domain p99 is {:.2} times as long (at most {RATIO})",
                self.ratio(0.99)
            ),
            failures => format!("FAIL: {}", failures.join("; ")),
        }
    }

    /// A quantile with its name, of both kinds and compared.
    fn rows(&self) -> Vec<(String, f64, f64)> {
        let mut rows = Vec::new();
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            rows.push((
                format!("{name}, round in the middle"),
                self.without.middle(share),
                self.with.middle(share),
            ));
        }
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            rows.push((
                format!("{name}, all rounds together"),
                self.without.together(share),
                self.with.together(share),
            ));
        }
        let rounds = self.without.each(0.99).into_iter();
        for (place, (a, b)) in rounds.zip(self.with.each(0.99)).enumerate() {
            rows.push((format!("p99, round {}", place + 1), a, b));
        }
        rows
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.settings {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:34} {value:>10}");
        }
        let _ = writeln!(
            text,
            "slow emails seen by the server     {:>10}",
            self.slow_arrived
        );
        let _ = writeln!(
            text,
            "slow emails that wait in the end   {:>10}",
            self.slow_waiting
        );
        let _ = writeln!(
            text,
            "\n{:34} {:>10} {:>10} {:>10}",
            "milliseconds, slow domain", "without", "with", "ratio"
        );
        for (name, a, b) in self.rows() {
            let _ = writeln!(text, "{name:34} {a:>10.2} {b:>10.2} {:>10.2}", b / a);
        }
        for complaint in &self.complaints {
            let _ = writeln!(text, "\n{complaint}");
        }
        let _ = write!(text, "\n{}", self.verdict());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let key = |name: &str| name.replace(", ", "_").replace([' ', '.'], "_");
        let settings = self.settings.iter();
        let settings: serde_json::Map<_, _> = settings
            .map(|(name, value)| (key(name), value.clone()))
            .collect();
        let rows = self.rows().into_iter();
        let rows: serde_json::Map<_, _> = rows
            .map(|(name, a, b)| {
                let row = json!({"without_ms": a, "with_ms": b, "ratio": b / a});
                (key(&name), row)
            })
            .collect();
        json!({
            "what": "milliseconds from the moment an email was to be handed in to the mail server",
            "settings": settings,
            "times": rows,
            "slow_emails_seen": self.slow_arrived,
            "slow_emails_waiting": self.slow_waiting,
            "duplicates": self.duplicates,
            "passed": self.passed(),
            "verdict": self.verdict(),
            "details": self.complaints,
        })
        .to_string()
    }
}
