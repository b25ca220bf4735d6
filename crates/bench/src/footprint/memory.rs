//! Memory of the embedded mode: with many emails queued, and while very many go through.

use std::time::Duration;

use posthaste_sink::{Mode, Sink, SinkConfig};

use super::process::{Process, Start};
use super::{Amounts, cost};
use crate::figures::{Claim, Limit, Section};
use crate::history::load::{Load, To};
use crate::rig::journal::Journal;

/// The most that may be resident with the queue full, in MiB.
const QUEUED: Limit = Limit::AtMost(150.0);
/// What it may have grown by between the second and the last tenth of all emails, in MiB.
const GROWTH: Limit = Limit::AtMost(10.0);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How many HTTP clients hand in at the same time.
const CLIENTS: u64 = 64;
/// Emails that go through at once; the next come when they are gone.
const STEP: u64 = 10_000;

/// Queues emails while the mail server says nothing at all.
pub(super) async fn queued(
    start: &Start,
    amounts: Amounts,
    journal: &Journal,
    section: &mut Section,
) -> anyhow::Result<()> {
    let sink = Sink::start(SinkConfig::default()).await?;
    sink.set_mode(Mode::HangAll);
    let process = begin(start, "queued", &sink).await?;
    let load = Load::new(amounts.body, CLIENTS);
    let bar = journal.bar(amounts.queued, "queued");
    let mut most = process.resident_mib()?;
    let mut done = 0;
    while done < amounts.queued {
        let step = STEP.min(amounts.queued - done);
        load.hand_in(&process.address, step, To::People).await?;
        done += step;
        bar.set_position(done);
        most = most.max(process.resident_mib()?);
    }
    bar.finish_and_clear();
    let (resident, peak) = (process.resident_mib()?, process.peak_mib()?);
    journal.line(&format!(
        "{done} queued: {resident:.1} MiB resident, peak {peak:.1} MiB, most seen {most:.1} MiB"
    ));
    process.kill().await?;
    let what = format!("embedded, {done} queued of {} octets", amounts.body);
    let figure = cost(&format!("{what}: resident"), "MiB", vec![resident]);
    section.figures.push(figure);
    section
        .figures
        .push(cost(&format!("{what}: peak"), "MiB", vec![peak]));
    section
        .claims
        .push(Claim::of_value(&what, peak, "MiB, peak", QUEUED));
    Ok(())
}

/// Takes in and delivers very many emails, and looks at memory all the time.
pub(super) async fn flow(
    start: &Start,
    amounts: Amounts,
    journal: &Journal,
    section: &mut Section,
) -> anyhow::Result<()> {
    let sink = Sink::start(SinkConfig::default()).await?;
    let process = begin(start, "flow", &sink).await?;
    let load = Load::new(amounts.body, CLIENTS);
    let mut looks = Vec::new();
    let working = async {
        let mut done = 0;
        while done < amounts.emails {
            let step = STEP.min(amounts.emails - done);
            load.hand_in(&process.address, step, To::People).await?;
            done += step;
            sink.wait_for(done).await;
        }
        anyhow::Ok(())
    };
    let looking = async {
        let bar = journal.bar(amounts.emails, "delivered");
        let mut told = 0;
        loop {
            let done = sink.accepted();
            looks.push((done, process.resident_mib()?));
            bar.set_position(done);
            if done / (STEP * 10) > told {
                told = done / (STEP * 10);
                let resident = process.resident_mib()?;
                journal.line(&format!("{done} delivered, {resident:.1} MiB resident"));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let looked: anyhow::Result<()> = tokio::select! {
        worked = working => worked,
        looked = looking => looked,
    };
    looked?;
    let peak = process.peak_mib()?;
    process.kill().await?;
    let tenths = tenths(&looks, amounts.emails);
    let (second, last) = (tenths[1], tenths[9]);
    let text: Vec<String> = tenths.iter().map(|mib| format!("{mib:.1}")).collect();
    let emails = amounts.emails;
    journal.line(&format!(
        "{emails} delivered: MiB resident in each tenth {}, peak {peak:.1}",
        text.join(" ")
    ));
    let what = format!("embedded, {emails} emails through");
    let figure = cost(&format!("{what}: mean of each tenth"), "MiB", tenths.into());
    section.figures.push(figure);
    section
        .figures
        .push(cost(&format!("{what}: peak"), "MiB", vec![peak]));
    let growth = format!("{what}: last tenth over second");
    section
        .claims
        .push(Claim::of_value(&growth, last - second, "MiB more", GROWTH));
    Ok(())
}

async fn begin(start: &Start, folder: &str, sink: &Sink) -> anyhow::Result<Process> {
    let start = start
        .within(folder)
        .with("SMTP_URL", format!("{}?tls=none", sink.url()))
        .with("POSTHASTE_SMTP__MESSAGES_PER_CONNECTION", "1000");
    start.ready().await
}

/// The mean of what was seen in each tenth of all emails; the one before where nothing was seen.
fn tenths(looks: &[(u64, f64)], emails: u64) -> [f64; 10] {
    let mut means = [f64::NAN; 10];
    let mut before = looks.first().map_or(f64::NAN, |(_, mib)| *mib);
    for (tenth, mean) in (0..).zip(&mut means) {
        let is_in = |done: u64| (done * 10 / emails.max(1)).min(9) == tenth;
        let seen = looks.iter().filter(|(done, _)| is_in(*done));
        let seen: Vec<f64> = seen.map(|(_, mib)| *mib).collect();
        if !seen.is_empty() {
            before = seen.iter().sum::<f64>() / seen.len() as f64;
        }
        *mean = before;
    }
    means
}

#[cfg(test)]
mod tests {
    use super::tenths;

    #[test]
    fn each_tenth_has_the_mean_of_what_was_seen_in_it() {
        let looks = [(0, 10.0), (5, 20.0), (10, 30.0), (95, 50.0), (100, 70.0)];
        let means = tenths(&looks, 100);
        assert_eq!(means[..2], [15.0, 30.0]);
        assert_eq!(means[5], 30.0, "nothing was seen: as before");
        assert_eq!(means[9], 60.0);
    }
}
