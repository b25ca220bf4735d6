//! A whole run, and the forms that it is given in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::machine::commit;
use super::{Claim, Figure, Machine, Section, chart, markdown, table};

/// Where a report goes, besides the table on stdout.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Outputs {
    /// Write the report as JSON to this file too
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Draw a chart of the rates into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write tables for documents to this file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Fail if a claim did not hold
    #[arg(long)]
    check: bool,
}

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The day, UTC.
    pub(crate) date: String,
    /// The command that made it.
    pub(crate) command: String,
    /// Where.
    pub(crate) machine: Machine,
    /// The commit, if it is known.
    pub(crate) commit: Option<String>,
    /// Versions and settings of the servers.
    pub(crate) servers: BTreeMap<String, String>,
    /// What was found.
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// Of this machine, today.
    pub(crate) fn new(sections: Vec<Section>, servers: BTreeMap<String, String>) -> Self {
        Self {
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            command: command(std::env::args().skip(1)),
            machine: Machine::this(),
            commit: commit(),
            servers,
            sections,
        }
    }

    /// All figures.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// All claims.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.sections.iter().flat_map(|section| &section.claims)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        table::table(self)
    }

    /// One line.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        serde_json::to_string(self).context("the report cannot be written as JSON")
    }

    /// Writes the files that are wanted.
    pub(crate) fn save(&self, outputs: &Outputs) -> anyhow::Result<()> {
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> anyhow::Result<String>| {
            let Some(path) = path else { return Ok(()) };
            std::fs::write(path, text()?)
                .with_context(|| format!("cannot write {}", path.display()))
        };
        write(&outputs.json_file, &|| self.json())?;
        write(&outputs.svg, &|| Ok(chart::svg(self)))?;
        write(&outputs.markdown, &|| Ok(markdown::markdown(self)))
    }

    /// Failure if a claim did not hold and that is looked at.
    pub(crate) fn exit_code(&self, outputs: &Outputs) -> ExitCode {
        if outputs.check && self.claims().any(|claim| !claim.held) {
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}

/// The command for others: without where files are on this machine.
fn command(words: impl Iterator<Item = String>) -> String {
    let mut command = "cargo run --release -p posthaste-bench --".to_owned();
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word.as_str(), None),
        };
        let mut skip = || if value.is_none() { words.next() } else { None };
        match name {
            "--binary" | "--svg" | "--markdown" | "--json-file" => drop(skip()),
            "--beside" => {
                skip();
                command.push_str(" --beside DIR");
            }
            "--database-url" | "--rabbitmq-url" => {
                skip();
                command.push_str(&format!(" {name} URL"));
            }
            "--json" => {}
            _ => command.push_str(&format!(" {word}")),
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_nothing_about_this_machine() {
        let words = "--binary /a/b deliver --beside=/c --rounds 3 --svg /d --env A=/e --json";
        let said = command(words.split(' ').map(str::to_owned));
        let program = "cargo run --release -p posthaste-bench --";
        assert_eq!(
            said,
            format!("{program} deliver --beside DIR --rounds 3 --env A=/e")
        );
    }
}
