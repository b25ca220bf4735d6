//! What came of it: a table for people, JSON for programs, Markdown for documents, one verdict.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::options::{Files, Script};
use super::place;
use super::trial::Found;
use crate::rig::quantile;

/// More than this is a leak: a process that does as little as ours does here.
const MOST_MEMORY_MIB: f64 = 400.0;
const MOST_DESCRIPTORS: f64 = 600.0;

/// Everything that a run found.
pub(crate) struct Report {
    pub(super) script: Script,
    pub(super) found: Vec<Found>,
    /// The command that does the same again.
    pub(super) replay: String,
    pub(super) seed: u64,
}

impl Found {
    fn status(&self, name: &str) -> u64 {
        self.audit.by_status.get(name).copied().unwrap_or(0)
    }

    /// Why it failed; empty: it did not.
    fn failures(&self, script: Script) -> Vec<String> {
        let (audit, seen) = (&self.audit, &self.witnesses);
        let most = self.played.most;
        let mut counted = vec![
            (audit.lost, "lost"),
            (audit.silent_duplicates, "silent duplicates"),
            (audit.wrongly_dead, "dead without a reason"),
            (audit.unasked, "stored or sent without being asked for"),
            (audit.mistaken, "stored under another key"),
            (
                seen.put_off.unexcused,
                "answers 503 while the database was there",
            ),
            (seen.unexpected, "unexpected answers"),
            (seen.ended.unexcused, "processes ended by themselves"),
            (
                u64::from(most.memory_mib > MOST_MEMORY_MIB),
                "process with too much memory",
            ),
            (
                u64::from(most.descriptors > MOST_DESCRIPTORS),
                "process with too many descriptors",
            ),
        ];
        if matches!(script, Script::RabbitMqAway(_) | Script::Soak(_)) {
            counted.push((seen.unanswered, "calls without an answer"));
        }
        let mut failures: Vec<_> = counted
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        failures.extend(self.played.not_drained.clone());
        if let Some(samples) = &self.played.samples {
            failures.extend(samples.growing());
        }
        if self.verify.is_some() {
            failures.push("posthaste verify found broken promises".to_owned());
        }
        let on = self.store.title();
        failures.iter().map(|why| format!("{on}: {why}")).collect()
    }

    /// Every number with its name.
    fn rows(&self) -> Vec<(String, Value)> {
        let (audit, seen, deaths) = (&self.audit, &self.witnesses, &self.deaths);
        let mut rows = Vec::new();
        let mut row = |name: &str, value: Value| rows.push((name.to_owned(), value));
        row("accepted", json!(audit.accepted));
        row("sent", json!(self.status("sent")));
        row("cancelled", json!(self.status("cancelled")));
        row("dead", json!(self.status("dead")));
        for (reason, n) in &audit.dead_by_reason {
            row(&format!("dead, {reason}"), json!(n));
        }
        row("unknown, held", json!(self.status("unknown")));
        for (outcome, n) in &audit.attempts {
            row(&format!("attempts, {outcome}"), json!(n));
        }
        row("copies at the mail server", json!(audit.copies));
        row("emails with several copies", json!(audit.several_copies));
        row(
            "… with unknown on record",
            json!(audit.several_copies_explained),
        );
        row("lost", json!(audit.lost));
        row(
            "duplicates outside `unknown`",
            json!(audit.silent_duplicates),
        );
        row("kill -9", json!(deaths.all()));
        for (how, n) in &deaths.kills {
            row(&format!("kill -9, {how}"), json!(n));
        }
        let places = place::on(self.store).count();
        row(
            "failpoints hit",
            json!(format!("{} of {places}", deaths.places.len())),
        );
        row("frozen at a failpoint", json!(deaths.froze));
        row("processes with a wrong clock", json!(deaths.wrong_clocks));
        row("processes with a failing fsync", json!(deaths.fsync_errors));
        for (fault, n) in &self.faults {
            row(fault, json!(n));
        }
        for (act, n) in &self.played.acts {
            row(&format!("operator: {act}"), json!(n));
        }
        row(
            "503 while the database was away",
            json!(seen.put_off.excused),
        );
        row("503 at other times", json!(seen.put_off.unexcused));
        row("requests without an answer", json!(seen.unanswered));
        row("acceptances asked for again", json!(seen.replayed));
        row("processes ended by themselves", json!(seen.ended.unexcused));
        row("leases rescued before the gate", json!(audit.rescued.0));
        row("leases rescued after the gate", json!(audit.rescued.1));
        let mut starts = deaths.starts_ms.clone();
        starts.sort_by(f64::total_cmp);
        row(
            "ms until a process listens, p50",
            json!(quantile(&starts, 0.5).round()),
        );
        row(
            "ms until a process listens, p95",
            json!(quantile(&starts, 0.95).round()),
        );
        let most = self.played.most;
        row("most memory of one, MiB", json!(most.memory_mib.round()));
        row("most descriptors of one", json!(most.descriptors));
        if let Some(samples) = &self.played.samples {
            rows.extend(samples.rows());
        }
        let seconds = ("seconds".to_owned(), json!(self.time.as_secs()));
        rows.push(seconds);
        rows
    }
}

impl Report {
    /// Places at which nobody died on any set-up.
    fn never_hit(&self) -> Vec<&'static str> {
        let stores = self.found.iter().map(|found| found.store);
        let places: BTreeSet<_> = stores.flat_map(place::on).collect();
        let hit = |place: &&str| {
            let mut found = self.found.iter();
            found.any(|found| found.deaths.places.contains_key(*place))
        };
        places.into_iter().filter(|place| !hit(place)).collect()
    }

    fn is_torture(&self) -> bool {
        matches!(self.script, Script::Torture { .. })
    }

    /// Why it failed; empty: it did not. A short run need not come by every place.
    fn failures(&self) -> Vec<String> {
        let found = self.found.iter();
        let mut failures: Vec<_> = found.flat_map(|f| f.failures(self.script)).collect();
        let never = self.never_hit();
        let is_whole = matches!(
            self.script,
            Script::Torture {
                every_fault: true,
                ..
            }
        );
        if is_whole && !never.is_empty() {
            failures.push(format!("failpoints never hit: {}", never.join(", ")));
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

    fn verdict(&self) -> String {
        match self.failures().as_slice() {
            [] => "PASS: nothing lost, no silent duplicate, every promise holds".to_owned(),
            failures => format!("FAIL: {}", failures.join("; ")),
        }
    }

    /// The names of all rows in order, and the value of each set-up.
    fn rows(&self) -> Vec<(String, Vec<Option<Value>>)> {
        let mut columns: Vec<Vec<(String, Value)>> = self.found.iter().map(Found::rows).collect();
        let mut names: Vec<String> = Vec::new();
        for column in &columns {
            let mut after = 0;
            for (name, _) in column {
                match names.iter().position(|known| known == name) {
                    Some(at) => after = at + 1,
                    None => {
                        names.insert(after, name.clone());
                        after += 1;
                    }
                }
            }
        }
        let mut take = |name: &str| -> Vec<Option<Value>> {
            let columns = columns.iter_mut();
            columns
                .map(|column| {
                    let at = column.iter().position(|(known, _)| known == name)?;
                    Some(column.swap_remove(at).1)
                })
                .collect()
        };
        names
            .into_iter()
            .map(|name| {
                let values = take(&name);
                (name, values)
            })
            .collect()
    }

    /// What is said below the table.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for found in &self.found {
            let skipped = found.skipped.iter();
            notes.extend(skipped.map(|what| format!("skipped on {}: {what}", found.store.title())));
        }
        if self.is_torture() {
            let never = self.never_hit();
            notes.push(match never.is_empty() {
                true => "every failpoint was hit".to_owned(),
                false => format!("failpoints never hit: {}", never.join(", ")),
            });
        }
        notes.push(format!("seed {}; again by: {}", self.seed, self.replay));
        notes
    }

    /// Everything that is wrong, in full.
    fn details(&self) -> Vec<&String> {
        let found = self.found.iter();
        found
            .flat_map(|found| {
                let seen = found.witnesses.complaints.iter();
                seen.chain(&found.audit.broken).chain(&found.verify)
            })
            .collect()
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:34}", "");
        // Writing to a string cannot fail.
        for found in &self.found {
            let _ = write!(text, " {:>25}", found.store.title());
        }
        text.push('\n');
        for (name, values) in self.rows() {
            let _ = write!(text, "{name:34}");
            for value in values {
                let _ = write!(text, " {:>25}", shown(value.as_ref()));
            }
            text.push('\n');
        }
        for detail in self.details() {
            let _ = writeln!(text, "\n{detail}");
        }
        for note in self.notes() {
            let _ = write!(text, "\n{note}");
        }
        let _ = write!(text, "\n{}", self.verdict());
        text
    }

    /// For documents.
    fn markdown(&self) -> String {
        let mut text = String::from("| |");
        for found in &self.found {
            let _ = write!(text, " {} |", found.store.title());
        }
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(self.found.len()));
        text.push('\n');
        for (name, values) in self.rows() {
            let _ = write!(text, "| {name} |");
            for value in values {
                let _ = write!(text, " {} |", shown(value.as_ref()));
            }
            text.push('\n');
        }
        for note in self.notes() {
            let _ = write!(text, "\n{note}\n");
        }
        let _ = writeln!(text, "\n{}", self.verdict());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let setups = self.found.iter().map(|found| {
            let mut setup = Map::new();
            setup.insert("setup".to_owned(), json!(found.store.title()));
            for (name, value) in found.rows() {
                let name = name
                    .replace("… ", "several_copies_")
                    .replace(['`', '\''], "");
                let name = name.replace(": ", "_").replace(", ", "_").replace(' ', "_");
                setup.insert(name.to_lowercase(), value);
            }
            setup.insert("kills_by_failpoint".to_owned(), json!(found.deaths.places));
            Value::Object(setup)
        });
        json!({
            "passed": self.passed(),
            "verdict": self.verdict(),
            "seed": self.seed,
            "replay": self.replay,
            "failpoints_never_hit": self.never_hit(),
            "setups": setups.collect::<Vec<_>>(),
            "notes": self.notes(),
            "details": self.details(),
        })
        .to_string()
    }

    /// Writes all files that are wanted.
    pub(crate) fn save(&self, files: &Files) -> anyhow::Result<()> {
        let texts = [
            (&files.json_file, Self::json as fn(&Self) -> String),
            (&files.markdown, Self::markdown),
        ];
        for (file, text) in texts {
            if let Some(file) = file {
                std::fs::write(file, text(self))
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(())
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
