//! What came of it: a table for people, JSON for programs, one verdict for both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::audit::Audit;
use crate::rig::member::Role;

/// Everything that a run found.
pub(crate) struct Report {
    pub(super) messages: usize,
    pub(super) expected_retries: u64,
    pub(super) audit: Audit,
    pub(super) kills: BTreeMap<Role, u64>,
    pub(super) freezes: u64,
    pub(super) rabbitmq_restarts: u32,
    pub(super) postgres_restarts: u32,
    /// Processes that ended by themselves while PostgreSQL was there.
    pub(super) ended: Vec<String>,
    pub(super) left: Option<String>,
    pub(super) verify: Option<String>,
    pub(super) time: Duration,
    /// What has to be typed to have the same plan again.
    pub(super) replay: String,
}

impl Report {
    /// Why it failed; empty: it did not.
    fn failures(&self) -> Vec<String> {
        let audit = &self.audit;
        let counted = [
            (audit.lost, "lost"),
            (audit.silent_duplicates, "with silent duplicates"),
            (audit.unasked, "put back or stored without being asked for"),
            (audit.mistaken, "in a state that does not fit what was seen"),
            (self.ended.len() as u64, "processes ended by themselves"),
        ];
        let counted = counted.into_iter().filter(|(n, _)| *n > 0);
        let mut failures: Vec<_> = counted.map(|(n, what)| format!("{n} {what}")).collect();
        let pending = self.status("pending");
        if pending > 0 {
            failures.push(format!("{pending} still pending"));
        }
        if audit.messages != self.messages as u64 {
            let found = audit.messages;
            failures.push(format!("{found} of {} are in the table", self.messages));
        }
        failures.extend(self.left.clone());
        if self.verify.is_some() {
            failures.push("posthaste verify found broken promises".to_owned());
        }
        failures
    }

    fn status(&self, name: &str) -> u64 {
        self.audit.by_status.get(name).copied().unwrap_or(0)
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

    /// Every number with its name.
    fn rows(&self) -> Vec<(&'static str, Value)> {
        let audit = &self.audit;
        let kills: u64 = self.kills.values().sum();
        vec![
            ("messages", json!(audit.messages)),
            ("retries planned", json!(self.expected_retries)),
            ("retries seen", json!(audit.retries)),
            ("copies beyond the first", json!(audit.extra_copies)),
            ("copies in review", json!(audit.in_review)),
            (
                "copies in review beyond the first",
                json!(audit.extra_in_review),
            ),
            ("repeats on record", json!(audit.repeats)),
            ("messages with repeats on record", json!(audit.repeated)),
            ("retried", json!(self.status("retried"))),
            ("failed", json!(self.status("failed"))),
            ("pending", json!(self.status("pending"))),
            ("handed in twice by the driver", json!(audit.uncertain)),
            ("of them not as planned", json!(audit.astray)),
            (
                "delivered to the driver again",
                json!(audit.delivered_again),
            ),
            ("lost", json!(audit.lost)),
            ("silent duplicates", json!(audit.silent_duplicates)),
            ("unasked", json!(audit.unasked)),
            ("mistaken", json!(audit.mistaken)),
            ("kills", json!(kills)),
            ("freezes", json!(self.freezes)),
            ("crashes of RabbitMQ", json!(self.rabbitmq_restarts)),
            ("crashes of PostgreSQL", json!(self.postgres_restarts)),
            ("seconds in all", json!(self.time.as_secs_f64().round())),
        ]
    }

    /// PASS or FAIL, and why.
    fn verdict(&self) -> String {
        match self.failures().as_slice() {
            [] => "PASS: nothing lost, no silent duplicate, every promise holds".to_owned(),
            failures => format!("FAIL: {}", failures.join("; ")),
        }
    }

    /// Everything that is wrong, in full.
    fn details(&self) -> impl Iterator<Item = &String> {
        let ended = self.ended.iter();
        ended.chain(&self.audit.broken).chain(&self.verify)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.rows() {
            // Writing to a string cannot fail.
            let value = value.to_string();
            let _ = writeln!(text, "{name:34} {value:>10}");
        }
        for detail in self.details() {
            let _ = writeln!(text, "\n{detail}");
        }
        let _ = write!(text, "\nagain: {}\n{}", self.replay, self.verdict());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let mut report = serde_json::Map::new();
        for (name, value) in self.rows() {
            report.insert(name.replace(' ', "_").to_lowercase(), value);
        }
        report.insert("again".to_owned(), json!(self.replay));
        report.insert("passed".to_owned(), json!(self.passed()));
        report.insert("verdict".to_owned(), json!(self.verdict()));
        let details: Vec<_> = self.details().collect();
        report.insert("details".to_owned(), json!(details));
        Value::Object(report).to_string()
    }
}
