//! Everything that can go wrong, at once and again and again: processes killed at every step of an
//! email's way, frozen, with wrong clocks; database, broker, mail server, network and disk failing,
//! while clients post and somebody works at the desk. Afterwards every email is accounted for.
//!
//! What happens follows a seed. When it happens depends on the machine, so the same seed is the
//! same plan and not the same run.

mod doom;
mod fault;
mod letter;
mod load;
mod operator;
mod options;
mod place;
mod report;
mod soak;
mod stage;
mod trial;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

pub(crate) use self::options::Options;
pub(crate) use self::report::Report;

use crate::rig;
use crate::rig::journal::Journal;

/// Runs everything. Whatever was started is stopped in the end, also at Ctrl-C.
pub(crate) async fn run(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    rig::unless_interrupted(run_to_the_end(binary, options)).await
}

/// Keeps the logs if something is wrong.
async fn run_to_the_end(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let binary = binary
        .canonicalize()
        .with_context(|| format!("{} is not there", binary.display()))?;
    let folder = tempfile::Builder::new()
        .prefix("posthaste-torture-")
        .tempdir()?;
    let journal = Arc::new(Journal::new());
    let seed = options.seed.unwrap_or_else(|| rand::random::<u32>().into());
    journal.line(&format!(
        "seed {seed}; logs are in {}",
        folder.path().display()
    ));
    let report = run_in(folder.path(), &binary, options, seed, &journal).await;
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
    seed: u64,
    journal: &Arc<Journal>,
) -> anyhow::Result<Report> {
    let stores = options.stores();
    ensure!(!stores.is_empty(), "that cannot happen on this set-up");
    let mut found = Vec::new();
    for store in stores {
        let folder = folder.join(format!("{store:?}").to_lowercase());
        let trial = trial::run(store, &folder, binary, options, seed, journal);
        found.push(trial.await.with_context(|| store.title())?);
    }
    Ok(Report {
        script: options.script(),
        found,
        replay: options.replay(seed),
        seed,
    })
}
