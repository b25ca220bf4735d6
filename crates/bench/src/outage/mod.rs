//! An outage of the only way out, with emails waiting: once with breakers, once without.
//!
//! The mail server is away from before the first email is handed in until long after the retry
//! policy would have given up. Everything that is a time in the policy is shorter by the same
//! factor, so that two hours are two minutes. How many were delivered is the mail server's word;
//! what was tried and spent is asked of the API for each email.

mod census;
mod hand_in;
mod options;
mod ramp;
mod report;
mod trial;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use crate::rig;
use crate::rig::journal::Journal;

/// Runs both. Whatever was started is stopped in the end, also at Ctrl-C.
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
    journal.line("with breakers");
    let with = trial::run(binary, folder, options, true, journal).await?;
    journal.line("without breakers");
    let without = trial::run(binary, folder, options, false, journal).await?;
    Ok(Report::new(options, with, without))
}
