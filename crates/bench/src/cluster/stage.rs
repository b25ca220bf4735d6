//! The play: load and faults together, then waiting until everything is drained.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use posthaste_sink::Sink;

use super::fault::Faults;
use super::load;
use super::options::Options;
use super::queue::Queues;
use crate::evidence::drain;
use crate::evidence::ledger::Ledger;
use crate::evidence::stored::Books;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::outage::Outages;
use crate::rig::services::Services;

/// Everyone who takes part.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) services: &'a Services,
    pub(super) queues: &'a Queues,
    pub(super) fleet: Arc<Fleet>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) outages: Outages,
    pub(super) books: Books,
    pub(super) sink: &'a Sink,
    pub(super) journal: &'a Journal,
}

/// What happened.
pub(super) struct Played {
    pub(super) faults: Faults,
    /// How long it took until all were accepted.
    pub(super) accept_time: Duration,
    /// What is left, if the limit was hit.
    pub(super) not_drained: Option<String>,
}

impl Stage<'_> {
    /// Plays everything within the limit.
    pub(super) async fn play(&self) -> anyhow::Result<Played> {
        let begun = Instant::now();
        let faults = Mutex::new(Faults::default());
        let mut accept_time = None;
        let playing = async {
            self.load_and_break(&faults, &mut accept_time).await?;
            self.journal.line("no more faults: waiting for the rest");
            drain::drained(&self.fleet, &self.books).await
        };
        let not_drained = match tokio::time::timeout(self.options.limit.0, playing).await {
            Ok(played) => {
                played?;
                None
            }
            Err(_) => Some(self.what_is_left().await),
        };
        Ok(Played {
            faults: faults.into_inner().unwrap_or_else(PoisonError::into_inner),
            accept_time: accept_time.unwrap_or_else(|| begun.elapsed()),
            not_drained,
        })
    }

    /// Kills processes all the while the emails are accepted and the faults happen, and on until
    /// most are delivered.
    async fn load_and_break(
        &self,
        faults: &Mutex<Faults>,
        accept_time: &mut Option<Duration>,
    ) -> anyhow::Result<()> {
        let options = self.options;
        let begun = Instant::now();
        let submitting = async {
            load::submit(options, &self.fleet, &self.ledger).await?;
            *accept_time = Some(begun.elapsed());
            self.journal.line("all are accepted");
            anyhow::Ok(())
        };
        let enough = (options.emails as f64 * options.kill_until.clamp(0.0, 1.0)) as u64;
        let loading = async {
            tokio::try_join!(self.inflict_all(faults), submitting)?;
            tokio::select! {
                () = self.sink.wait_for(enough) => anyhow::Ok(()),
                // What is held for an operator may never be delivered.
                drained = drain::drained(&self.fleet, &self.books) => drained,
            }
        };
        tokio::select! {
            loaded = loading => loaded,
            () = self.fleet.kill(options.kill_every.0, options.seed) => bail!("nobody kills"),
            () = self.fleet.freeze(options.freeze_every.0, options.seed) => bail!("nobody freezes"),
        }
    }

    async fn what_is_left(&self) -> String {
        let left = drain::what_is_left(&self.fleet, &self.books).await;
        format!("not drained within {}: {left}", self.options.limit)
    }
}
