//! Who did what.

use posthaste_core::port::AuditFilter;
use serde_json::json;

use crate::arguments::{AuditArguments, Global};
use crate::exit::Exit;
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, arguments: AuditArguments) -> anyhow::Result<Exit> {
    let AuditArguments {
        actor,
        action,
        subject,
        limit,
        after,
    } = arguments;
    let filter = AuditFilter {
        actor,
        action,
        subject,
        limit,
        after,
    };
    let desk = wiring::open_desk(global).await?;
    let entries = desk.operator.audit(&filter).await?;
    if global.json {
        for entry in entries {
            output::json(&json!({
                "number": entry.number, "at": entry.at, "actor": entry.actor, "action": entry.action,
                "subject": entry.subject, "filter": entry.filter, "count": entry.count,
                "result": entry.result,
            }));
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let count = entry.count.map(|count| format!(" ({count})"));
            vec![
                entry.number.to_string(),
                format!("{:.0}", entry.at),
                entry.actor,
                entry.action,
                entry.filter.unwrap_or(entry.subject),
                entry.result + &count.unwrap_or_default(),
            ]
        })
        .collect();
    output::table(&["NUMBER", "AT", "WHO", "WHAT", "TO", "RESULT"], &rows);
    Ok(Exit::Ok)
}
