//! Who did what.

use posthaste_core::port::AuditFilter;
use serde_json::json;

use crate::arguments::Global;
use crate::exit::Exit;
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, limit: usize) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    let entries = desk.operator.audit(&AuditFilter::newest(limit)).await?;
    if global.json {
        for entry in entries {
            output::json(&json!({
                "at": entry.at, "actor": entry.actor, "action": entry.action,
                "subject": entry.subject, "result": entry.result,
            }));
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            vec![
                format!("{:.0}", entry.at),
                entry.actor,
                entry.action,
                entry.subject,
                entry.result,
            ]
        })
        .collect();
    output::table(&["AT", "WHO", "WHAT", "TO", "RESULT"], &rows);
    Ok(Exit::Ok)
}
