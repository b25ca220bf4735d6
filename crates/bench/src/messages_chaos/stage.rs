//! The play: failures and faults together, then waiting until everything has come to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;

use super::hand_in::Publisher;
use super::handler::Handler;
use super::ledger::{HandIn, Ledger};
use super::options::Options;
use crate::amqp::Rabbit;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::outage::Outages;
use crate::rig::services::Services;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Everything must be at its end this often in a row.
const QUIET: u32 = 3;
/// How often failures are handed in.
const TICK: Duration = Duration::from_millis(5);

/// The queues of a run.
pub(super) struct Queues {
    pub(super) scheduled: String,
    pub(super) original: String,
    pub(super) review: String,
}

/// Everyone who takes part.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) services: &'a Services,
    pub(super) rabbitmq_url: &'a str,
    pub(super) queues: &'a Queues,
    pub(super) fleet: Arc<Fleet>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) outages: Outages,
    pub(super) journal: &'a Journal,
}

impl Stage<'_> {
    /// Plays everything within the limit. The answer is what is left, if that was hit.
    pub(super) async fn play(&self) -> anyhow::Result<Option<String>> {
        self.wait_for_queues().await?;
        let (failures, received) = mpsc::unbounded_channel();
        let publisher = Publisher {
            url: self.rabbitmq_url.to_owned(),
            queue: self.queues.scheduled.clone(),
            ledger: Arc::clone(&self.ledger),
            failures: received,
        };
        let handler = Handler {
            url: self.rabbitmq_url.to_owned(),
            queue: self.queues.original.clone(),
            ledger: Arc::clone(&self.ledger),
            failures: failures.clone(),
        };
        let playing = async {
            self.fail_and_break(&failures).await?;
            self.journal.line("no more faults: waiting for the rest");
            self.quiet().await
        };
        let played = tokio::select! {
            played = tokio::time::timeout(self.options.limit.0, playing) => played,
            () = publisher.run() => bail!("nobody hands in"),
            () = handler.run() => bail!("nobody handles"),
        };
        match played {
            Ok(played) => played.map(|()| None),
            Err(_) => Ok(Some(self.what_is_left().await)),
        }
    }

    /// The processes make their queues when they have found RabbitMQ.
    async fn wait_for_queues(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            // A queue that is missing costs the channel its life.
            let rabbit = Rabbit::connect(self.rabbitmq_url).await?;
            let found = rabbit.depth(&self.queues.scheduled).await;
            if found.is_ok() || Instant::now() > give_up {
                return found.map(drop).context("nobody has made the queues");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Kills processes all the while messages fail and servers crash, and on until most retries
    /// were made.
    async fn fail_and_break(&self, failures: &mpsc::UnboundedSender<HandIn>) -> anyhow::Result<()> {
        let options = self.options;
        let share = options.kill_until.clamp(0.0, 1.0);
        let enough = (self.ledger.expected_retries() as f64 * share) as u64;
        let loading = async {
            tokio::try_join!(self.fail_all(failures), self.crash_all())?;
            while self.ledger.retries() < enough {
                self.fleet.check()?;
                tokio::time::sleep(LOOK_EVERY).await;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            loaded = loading => loaded,
            () = self.fleet.kill(options.kill_every.0, options.seed) => bail!("nobody kills"),
            () = self.fleet.freeze(options.freeze_every.0, options.seed) => bail!("nobody freezes"),
        }
    }

    /// Has every message fail for the first time, evenly.
    async fn fail_all(&self, failures: &mpsc::UnboundedSender<HandIn>) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        let mut next = 0;
        while next < self.options.messages {
            tick.tick().await;
            let wanted = (begun.elapsed().as_secs_f64() * self.options.rate) as usize;
            let until = wanted.min(self.options.messages);
            for number in next..until {
                let hand_in = HandIn {
                    number,
                    retry_count: 0,
                };
                failures.send(hand_in)?;
            }
            next = until.max(next);
        }
        while self.ledger.handed_in() < self.options.messages as u64 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.journal.line("all messages have failed once");
        Ok(())
    }

    /// Whether everything has come to its end: nothing is on its way, nothing waits.
    async fn is_quiet(&self) -> anyhow::Result<bool> {
        if self.ledger.left() != (0, 0) {
            return Ok(false);
        }
        let exhausted = self
            .ledger
            .entries()
            .iter()
            .filter(|e| e.exhausts())
            .count();
        let sql = "SELECT count(*) FILTER (WHERE status = 'pending'),
                       count(*) FILTER (WHERE status = 'failed') FROM retry_queue";
        let row = self.services.database().await?.query_one(sql, &[]).await?;
        let (pending, failed): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let rabbit = Rabbit::connect(self.rabbitmq_url).await?;
        let waiting = rabbit.depth(&self.queues.scheduled).await?;
        let unseen = rabbit.depth(&self.queues.original).await?;
        Ok(pending == 0 && failed >= exhausted as i64 && waiting + unseen == 0)
    }

    async fn quiet(&self) -> anyhow::Result<()> {
        let mut times = 0;
        while times < QUIET {
            self.fleet.check()?;
            times = match self.is_quiet().await {
                Ok(true) => times + 1,
                _ => 0,
            };
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    async fn what_is_left(&self) -> String {
        let (open, waiting) = self.ledger.left();
        let sql = "SELECT status, count(*) FROM retry_queue GROUP BY status ORDER BY status";
        let asking = async { anyhow::Ok(self.services.database().await?.query(sql, &[]).await?) };
        let rows = asking.await.unwrap_or_default();
        let rows: Vec<(String, i64)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
        format!(
            "not at its end within {}: {open} failures are not confirmed, {waiting} messages did \
             not come back; in the table: {rows:?}",
            self.options.limit
        )
    }
}
