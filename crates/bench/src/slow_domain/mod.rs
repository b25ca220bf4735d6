//! One slow destination domain among many fast ones: how long do emails to the fast ones take, with
//! and without it?
//!
//! Two processes take turns on the same machine, or work side by side, each with a store and a mail
//! server of its own. Both get the same emails. At one of them the domain answers at once; at the
//! other it takes its time, and gets far more emails than there are connections, which it holds from
//! then on. An email's time runs from the moment at which it was to be handed in, so that a server
//! that makes its clients wait is not forgiven.

mod arm;
mod load;
mod options;
mod report;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use self::arm::Arm;
use self::load::Mix;
use crate::processor::wait_for_calm;
use crate::rig;
use crate::rig::journal::Journal;

/// Runs everything. Whatever was started is stopped in the end, also at Ctrl-C.
pub(crate) async fn run(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    rig::unless_interrupted(run_to_the_end(binary, options)).await
}

/// Keeps the logs if something is wrong.
async fn run_to_the_end(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let folder = tempfile::Builder::new()
        .prefix("posthaste-bench-")
        .tempdir()?;
    let journal = Arc::new(Journal::new());
    let report = run_in(folder.path(), binary, options, &journal).await;
    journal.clear();
    if !report.as_ref().is_ok_and(Report::passed) {
        journal.line(&format!("logs stay in {}", folder.keep().display()));
    }
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
    let primer = Mix {
        fast: 0,
        slow: options.slow_emails.min(PRIMER),
        is_slow: true,
    };
    with.round(options, primer).await?;
    let mut report = Report::new(options);
    let slow_mix = Mix {
        fast: options.fast_emails(),
        slow: options.slow_emails,
        is_slow: true,
    };
    let quick_mix = Mix {
        slow: if options.leave_out {
            0
        } else {
            options.slow_emails
        },
        is_slow: false,
        ..slow_mix
    };
    for round in 0..options.rounds {
        if options.together {
            wait_for_calm(options.calm.0).await;
            let (a, b) = tokio::try_join!(
                without.round(options, quick_mix),
                with.round(options, slow_mix)
            )?;
            journal.line(&report.enter(false, a));
            journal.line(&report.enter(true, b));
            continue;
        }
        // In turns that take turns themselves, so that a machine that gets slower favours nobody.
        for is_slow in [round % 2 == 1, round % 2 == 0] {
            wait_for_calm(options.calm.0).await;
            let times = match is_slow {
                false => without.round(options, quick_mix).await?,
                true => with.round(options, slow_mix).await?,
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
