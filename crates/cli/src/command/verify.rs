//! Audits the stored state against the promises.

use std::path::Path;

use anyhow::Context as _;
use posthaste_core::email::EmailId;
use serde_json::json;

use crate::arguments::Global;
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, ledger: Option<&Path>) -> anyhow::Result<Exit> {
    let ledger = match ledger {
        Some(path) => read_ledger(path)?,
        None => Vec::new(),
    };
    let desk = wiring::open_desk(global).await?;
    let violations = desk.operator.verify(&ledger).await?;
    let statistics = desk.operator.statistics().await?;
    if global.json {
        let found: Vec<_> = violations
            .iter()
            .map(|v| json!({"invariant": v.invariant, "detail": v.detail}))
            .collect();
        output::json(&json!({
            "ok": violations.is_empty(), "accepted": statistics.accepted, "pruned": statistics.pruned,
            "ledger": ledger.len(), "violations": found,
        }));
    } else {
        for violation in &violations {
            output::line(&format!("{}: {}", violation.invariant, violation.detail));
        }
        let verdict = match violations.len() {
            0 => "Every promise holds".to_owned(),
            n => format!("{n} promises are broken"),
        };
        output::line(&format!(
            "{verdict}: {} emails accepted, {} pruned, {} ids of the ledger checked.",
            statistics.accepted,
            statistics.pruned,
            ledger.len()
        ));
    }
    Ok(if violations.is_empty() {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

/// One id per line; empty lines and lines that start with # are passed over.
fn read_ledger(path: &Path) -> anyhow::Result<Vec<EmailId>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            line.parse().map_err(|_| {
                UsageError(format!(
                    "{}:{number}: `{line}` is not an id",
                    path.display()
                ))
                .into()
            })
        })
        .collect()
}
