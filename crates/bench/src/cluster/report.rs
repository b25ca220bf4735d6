//! What came of it: a table for people, JSON for programs, one verdict for both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::fault::Faults;
use crate::evidence::audit::Audit;
use crate::evidence::witness::Witnesses;
use crate::rig::member::Role;

/// Everything that a run found.
pub(crate) struct Report {
    pub(super) emails: usize,
    pub(super) audit: Audit,
    pub(super) faults: Faults,
    pub(super) kills: BTreeMap<Role, u64>,
    pub(super) freezes: u64,
    pub(super) witnesses: Witnesses,
    pub(super) not_drained: Option<String>,
    pub(super) verify: Option<String>,
    pub(super) accept_time: Duration,
    pub(super) total_time: Duration,
}

impl Report {
    /// Why it failed; empty: it did not.
    fn failures(&self) -> Vec<String> {
        let (audit, seen) = (&self.audit, &self.witnesses);
        let counted = [
            (audit.lost, "lost"),
            (audit.silent_duplicates, "silent duplicates"),
            (audit.wrongly_dead, "dead without a reason"),
            (audit.unasked, "stored or sent without being asked for"),
            (audit.mistaken, "stored under another key"),
            (
                seen.put_off.unexcused,
                "answers 503 while PostgreSQL was there",
            ),
            (seen.unexpected, "unexpected answers"),
            (seen.ended.unexcused, "processes ended by themselves"),
        ];
        let mut failures: Vec<_> = counted
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        if audit.accepted != self.emails as u64 {
            failures.push(format!("{} of {} accepted", audit.accepted, self.emails));
        }
        failures.extend(self.not_drained.clone());
        if self.verify.is_some() {
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

    /// Every number with its name.
    fn rows(&self) -> Vec<(String, Value)> {
        let (audit, seen) = (&self.audit, &self.witnesses);
        let status = |name: &str| audit.by_status.get(name).copied().unwrap_or(0);
        let mut rows = vec![
            ("accepted".to_owned(), json!(audit.accepted)),
            ("sent".to_owned(), json!(status("sent"))),
        ];
        let mut row = |name: &str, value: Value| rows.push((name.to_owned(), value));
        row("dead", json!(status("dead")));
        for (reason, n) in &audit.dead_by_reason {
            row(&format!("dead, {reason}"), json!(n));
        }
        row("unknown, held", json!(status("unknown")));
        for outcome in [
            "sent",
            "transient",
            "permanent",
            "unknown",
            "lost",
            "cancelled",
        ] {
            let n = audit.attempts.get(outcome).copied().unwrap_or(0);
            row(&format!("attempts, {outcome}"), json!(n));
        }
        row("emails with several copies", json!(audit.several_copies));
        row(
            "… with unknown on record",
            json!(audit.several_copies_explained),
        );
        row("copies beyond the first", json!(audit.extra_copies));
        row("silent duplicates", json!(audit.silent_duplicates));
        row("lost", json!(audit.lost));
        for (role, n) in &self.kills {
            row(&format!("kills, {role}"), json!(n));
        }
        row("freezes", json!(self.freezes));
        row("purges", json!(self.faults.purges));
        row("messages purged", json!(self.faults.purged_messages));
        row("restarts of RabbitMQ", json!(self.faults.rabbitmq_restarts));
        row(
            "restarts of PostgreSQL",
            json!(self.faults.postgres_restarts),
        );
        row("503 while PostgreSQL was away", json!(seen.put_off.excused));
        row("503 at other times", json!(seen.put_off.unexcused));
        row("requests without an answer", json!(seen.unanswered));
        row("acceptances asked for again", json!(seen.replayed));
        row(
            "processes ended, PostgreSQL away",
            json!(seen.ended.excused),
        );
        row("processes ended, other times", json!(seen.ended.unexcused));
        row("leases rescued before the gate", json!(audit.rescued.0));
        row("leases rescued after the gate", json!(audit.rescued.1));
        row("seconds to accept", seconds(self.accept_time));
        row("seconds in all", seconds(self.total_time));
        rows
    }

    /// PASS or FAIL, and why.
    fn verdict(&self) -> String {
        match self.failures().as_slice() {
            [] => "PASS: nothing lost, no silent duplicate, every promise holds".to_owned(),
            failures => format!("FAIL: {}", failures.join("; ")),
        }
    }

    /// Everything that is wrong, in full, and examples of what is held.
    fn details(&self) -> impl Iterator<Item = &String> {
        let seen = self.witnesses.complaints.iter();
        seen.chain(&self.audit.broken)
            .chain(&self.verify)
            .chain(&self.audit.held)
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
        let _ = write!(text, "\n{}", self.verdict());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let mut report = serde_json::Map::new();
        for (name, value) in self.rows() {
            let name = name.replace("… ", "several_copies_");
            let name = name.replace(", ", "_").replace(' ', "_").to_lowercase();
            report.insert(name, value);
        }
        report.insert("passed".to_owned(), json!(self.passed()));
        report.insert("verdict".to_owned(), json!(self.verdict()));
        let details: Vec<_> = self.details().collect();
        report.insert("details".to_owned(), json!(details));
        Value::Object(report).to_string()
    }
}

fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 10.0).round() / 10.0)
}
