//! The clients: they post emails at a steady rate until they are told to stop, and keep the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};
use uuid::Uuid;

use super::letter::Letter;
use crate::evidence::ledger::Ledger;
use crate::evidence::poster::Poster;
use crate::rig::fleet::Fleet;

/// What is posted, and how fast.
pub(super) struct Load {
    pub(super) seed: u64,
    pub(super) rate: u32,
    pub(super) clients: usize,
    /// Only what a good mail server takes or refuses.
    pub(super) mild: bool,
    /// Whom to tell of emails that are to be withdrawn.
    pub(super) withdrawn: UnboundedSender<Uuid>,
}

/// What all clients share.
struct Shared {
    load: Load,
    next: AtomicU64,
    ticks: Mutex<Interval>,
}

/// Posts until `stop` says so, and on until everything that was posted is accepted. Fails at an
/// answer that no fault explains, such as a 422.
pub(super) async fn post(
    load: Load,
    fleet: &Arc<Fleet>,
    ledger: &Arc<Ledger>,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / load.rate.max(1));
    // After a time without anyone to talk to, not everything at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let clients = load.clients.max(1);
    let shared = Arc::new(Shared {
        load,
        next: AtomicU64::new(0),
        ticks: Mutex::new(ticks),
    });
    let mut posting = JoinSet::new();
    for turn in 0..clients {
        let poster = Poster::new(Arc::clone(fleet), Arc::clone(ledger), turn);
        let (shared, ledger, stop) = (Arc::clone(&shared), Arc::clone(ledger), stop.clone());
        posting.spawn(async move { shared.post(poster, &ledger, stop).await });
    }
    while let Some(ended) = posting.join_next().await {
        ended??;
    }
    Ok(())
}

impl Shared {
    async fn post(
        &self,
        mut poster: Poster,
        ledger: &Ledger,
        mut stop: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                _ = async { self.ticks.lock().await.tick().await } => {}
            }
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let letter = Letter::new(self.load.seed, n, self.load.mild);
            let (number, key) = ledger.open(letter.expected);
            let request = letter.request(number, &key, Timestamp::now());
            let posted = poster.post(&request).await?;
            // What was sent at once is answered 200 without having been there before.
            let is_replay = posted.is_over && !letter.is_inline;
            ledger.accept(number, posted.id, is_replay)?;
            // Of a second answer nobody knows who sent it.
            if letter.is_inline && posted.tries == 1 && posted.status == "sent" {
                ledger.tell_sent(number);
            }
            if letter.is_withdrawn() {
                // In vain if nobody withdraws any more: then it is seen in the end.
                let _ = self.load.withdrawn.send(posted.id);
            }
        }
    }
}
