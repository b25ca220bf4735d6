//! Memory and processor time of a process that has nothing to do.

use std::time::Duration;

use super::process::Start;
use super::{Amounts, cost};
use crate::figures::{Claim, Limit, Section};
use crate::processor::{Group, Reading};
use crate::rig::journal::Journal;
use crate::rig::services::Services;

/// The most that may be resident, in MiB.
const MEMORY: Limit = Limit::AtMost(30.0);
/// The most that may be used, in percent of one core.
const PROCESSOR: Limit = Limit::AtMost(1.0);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Starts it on every footing, one after the other, and leaves it alone.
pub(super) async fn measure(
    start: &Start,
    services: &Services,
    amounts: Amounts,
    journal: &Journal,
    section: &mut Section,
) -> anyhow::Result<()> {
    let start = |name: &str| {
        // A mail server that is not there: nobody has anything to say to it.
        let start = start.within(name);
        start.with("SMTP_URL", "smtp://127.0.0.1:1?tls=none")
    };
    let database_url = &services.database_url;
    let mut footings = vec![
        ("embedded", start("idle-embedded")),
        (
            "PostgreSQL",
            start("idle-postgres").with("DATABASE_URL", database_url),
        ),
    ];
    if let Some(rabbitmq_url) = &services.rabbitmq_url {
        let with_both = start("idle-rabbitmq")
            .with("DATABASE_URL", database_url)
            .with("RABBITMQ_URL", rabbitmq_url);
        footings.push(("PostgreSQL + RabbitMQ", with_both));
    }
    for (name, start) in footings {
        let process = start.ready().await?;
        let reading = Reading::of(&[Group::alone("posthaste", process.id()?)]);
        let until = tokio::time::Instant::now() + amounts.idle;
        let mut most = process.resident_mib()?;
        while tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            most = most.max(process.resident_mib()?);
        }
        let usage = reading.until_now();
        let used = usage.by_group.first().map_or(f64::NAN, |(_, used)| *used);
        let percent = used / usage.wall * 100.0;
        let peak = process.peak_mib()?;
        journal.line(&format!(
            "idle, {name}: {most:.1} MiB resident (peak at start {peak:.1}), {percent:.2} % of a core"
        ));
        process.stop().await?;
        let memory = format!("idle, {name}: most resident");
        let processor = format!("idle, {name}: processor");
        section
            .claims
            .push(Claim::of_value(&memory, most, "MiB", MEMORY));
        section.claims.push(Claim::of_value(
            &processor,
            percent,
            "% of a core",
            PROCESSOR,
        ));
        section.figures.push(cost(&memory, "MiB", vec![most]));
        section
            .figures
            .push(cost(&processor, "% of a core", vec![percent]));
    }
    Ok(())
}
