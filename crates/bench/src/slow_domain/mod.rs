//! One slow destination domain among many fast ones: how long do emails to the fast ones take, with
//! and without it?
//!
//! Two processes take turns on the same machine, or work side by side, each with a store and a mail
//! server of its own. One of them never hears of the slow domain; the other gets far more emails for
//! it than there are connections, in the same load, and holds them from then on. An email's time runs
//! from the moment at which it was to be handed in, so that a server that makes its clients wait is
//! not forgiven.

mod arm;
mod load;
mod options;
mod report;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use self::arm::Arm;
use crate::processor::wait_for_calm;
use crate::rig;
use crate::rig::journal::Journal;

/// Runs everything. Whatever was started is stopped in the end, also at Ctrl-C.
pub(crate) async fn run(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    rig::unless_interrupted(run_to_the_end(binary, options)).await
}

async fn run_to_the_end(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let folder = tempfile::Builder::new()
        .prefix("posthaste-bench-")
        .tempdir()?;
    let journal = Arc::new(Journal::new());
    let report = run_in(folder.path(), binary, options, &journal).await;
    journal.clear();
    report
}

async fn run_in(
    folder: &Path,
    binary: &Path,
    options: &Options,
    journal: &Arc<Journal>,
) -> anyhow::Result<Report> {
    let mut without = Arm::start(binary, folder, "a", options, journal).await?;
    let mut with = Arm::start(binary, folder, "b", options, journal).await?;
    // From here on the slow domain holds whatever it gets.
    with.round(options, 0, options.slow_emails.min(PRIMER))
        .await?;
    let mut report = Report::new(options);
    let (fast, slow) = (options.fast_emails(), options.slow_emails);
    for round in 0..options.rounds {
        if options.together {
            wait_for_calm(options.calm.0).await;
            let (a, b) = tokio::try_join!(
                without.round(options, fast, 0),
                with.round(options, fast, slow)
            )?;
            journal.line(&report.enter(false, a));
            journal.line(&report.enter(true, b));
            continue;
        }
        // In turns that take turns themselves, so that a machine that gets slower favours nobody.
        for is_slow in [round % 2 == 1, round % 2 == 0] {
            wait_for_calm(options.calm.0).await;
            let times = match is_slow {
                false => without.round(options, fast, 0).await?,
                true => with.round(options, fast, slow).await?,
            };
            journal.line(&report.enter(is_slow, times));
        }
    }
    report.slow_arrived = with.slow_arrived();
    report.slow_waiting = with.waiting().await?;
    for arm in [without, with] {
        report.complaints.extend(arm.stand.verify(&arm.ids).await?);
        let copies = arm.sink.duplicates().len();
        report.duplicates += copies as u64;
        arm.stand.stop().await?;
    }
    Ok(report)
}

/// So many emails go to the slow domain before the first round.
const PRIMER: u64 = 64;
