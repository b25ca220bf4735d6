//! From the start of the process until `/readyz` is answered 200, on a database with many emails.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::process::{Process, Start};
use super::{Amounts, cost};
use crate::figures::{Claim, Limit, Section};
use crate::history::past::{Past, fill_postgres, fill_sqlite};
use crate::rig::journal::Journal;
use crate::rig::services::Services;

/// The longest that it may take, in milliseconds.
const LONGEST: Limit = Limit::AtMost(300.0);

/// Fills a database of each kind and starts on it several times.
pub(super) async fn measure(
    start: &Start,
    services: &Services,
    amounts: Amounts,
    journal: &Journal,
    section: &mut Section,
) -> anyhow::Result<()> {
    let past = Past::over(amounts.rows);
    let start = |name: &str| {
        let start = start.within(name);
        start.with("SMTP_URL", "smtp://127.0.0.1:1?tls=none")
    };
    let embedded = start("start-embedded");
    // Once for the schema, and again when the database is full.
    embedded.ready().await?.stop().await?;
    let file = embedded.folder.join("posthaste.db");
    fill_sqlite(&file, past, journal).await?;
    starts("SQLite", &embedded, amounts, journal, section).await?;
    match drop_from_cache(&file).await {
        Ok(true) => {
            let process = embedded.ready().await?;
            let took = ms(&process);
            process.kill().await?;
            journal.line(&format!(
                "start on SQLite, file not in memory: {took:.0} ms"
            ));
            let name = "start, SQLite, file dropped from the page cache (fadvise)";
            let rows = format!("{} emails in the database", amounts.rows);
            let figure = cost(name, "ms", vec![took]).with_note(rows);
            section.figures.push(figure);
        }
        Ok(false) | Err(_) => section
            .notes
            .push("the file could not be dropped from the page cache".to_owned()),
    }
    let postgres = start("start-postgres").with("DATABASE_URL", &services.database_url);
    postgres.ready().await?.stop().await?;
    fill_postgres(&services.database_url, past, journal).await?;
    starts("PostgreSQL", &postgres, amounts, journal, section).await
}

async fn starts(
    name: &str,
    start: &Start,
    amounts: Amounts,
    journal: &Journal,
    section: &mut Section,
) -> anyhow::Result<()> {
    let mut took = Vec::new();
    for _ in 0..amounts.starts {
        let process = start.ready().await?;
        took.push(ms(&process));
        process.stop().await?;
    }
    let all: Vec<String> = took.iter().map(|took| format!("{took:.0}")).collect();
    journal.line(&format!("starts on {name}: {} ms", all.join(", ")));
    let figure = cost(&format!("start, {name}"), "ms", took)
        .with_note(format!("{} emails in the database", amounts.rows));
    let what = format!("cold start to /readyz, {name}");
    section
        .claims
        .push(Claim::of_value(&what, figure.median(), "ms", LONGEST));
    section.figures.push(figure);
    Ok(())
}

fn ms(process: &Process) -> f64 {
    process.ready_after.as_secs_f64() * 1e3
}

/// Asks the kernel to forget what it has of a file. `dd` does it without being root.
async fn drop_from_cache(file: &Path) -> anyhow::Result<bool> {
    let synced = std::fs::File::open(file)?.sync_all();
    synced?;
    let status = Command::new("dd")
        .arg(format!("if={}", file.display()))
        .args(["iflag=nocache", "count=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await?;
    Ok(status.success())
}
