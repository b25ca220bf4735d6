//! The whole loop at a given rate: failures are handed in, kept, and put back at their time, all
//! at once. Every payload says when it is due, so that whoever gets it knows how late it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::driver::{Failures, now_ms, take_back};
use super::lane::Lane;
use super::memory::Memory;
use crate::amqp::Rabbit;
use crate::processor::{Reading, Usage};
use crate::rig::journal::Journal;
use crate::server::Server;

/// After the first messages are due, nothing is measured for so long.
const SETTLING: Duration = Duration::from_secs(1);

/// How many messages are handed in each second, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) rate: f64,
    pub(super) time: Duration,
}

/// What a load came to.
pub(super) struct Lived {
    pub(super) load: Load,
    /// All messages.
    pub(super) total: u64,
    /// Messages handed in in a second.
    pub(super) offered: f64,
    /// Messages put back in a second while others were handed in.
    pub(super) put_back: f64,
    /// Sorted, in milliseconds.
    late: Vec<f64>,
    /// The latest of each second in turn, in milliseconds.
    pub(super) latest: Vec<f64>,
    pub(super) missing: u64,
    pub(super) doubled: u64,
    /// While messages were handed in and put back, and how many those were.
    pub(super) usage: Usage,
    pub(super) messages: f64,
    pub(super) memory: Memory,
}

impl Lived {
    /// How late the given share of messages was at most, in milliseconds.
    pub(super) fn late_ms(&self, share: f64) -> f64 {
        let last = self.late.len().saturating_sub(1);
        let late = self.late.get((last as f64 * share) as usize);
        late.map_or(0.0, |late| (late * 10.0).round() / 10.0)
    }

    /// How many came before their time.
    pub(super) fn early(&self) -> u64 {
        self.late.iter().filter(|late| **late < 0.0).count() as u64
    }

    /// Whether the loop kept up: as many were put back as were handed in, and in time.
    pub(super) fn kept_up(&self) -> bool {
        let rate = self.load.rate;
        self.offered >= rate * 0.98 && self.put_back >= rate * 0.97 && self.late_ms(0.99) < 1000.0
    }
}

impl Lane<'_> {
    /// Hands messages in at a rate and waits until all are back.
    pub(super) async fn live(
        &self,
        load: Load,
        server: &Server,
        journal: &Journal,
    ) -> anyhow::Result<Lived> {
        let lead = self.options.lead.0;
        let alone = lead + SETTLING;
        ensure!(load.time > alone, "{:?} is too short", load.time);
        let failures = Failures {
            scheduled: self.scheduled(),
            original: self.original(),
            payload: self.options.payload,
            lead,
            rate: load.rate,
            total: (load.rate * load.time.as_secs_f64()) as u64,
        };
        let total = failures.total;
        let arrived = Arc::new(AtomicU64::new(0));
        let consumer = Rabbit::connect(self.rabbitmq_url).await?;
        let publisher = Rabbit::connect_to_publish(self.rabbitmq_url).await?;
        let counter = Arc::clone(&arrived);
        let taking = take_back(consumer, self.original(), total, lead, counter);
        let taking = tokio::spawn(taking);
        let handing_in = tokio::spawn(async move { failures.hand_in(&publisher).await });
        let groups = self.groups(server)?;
        let memory = Memory::watch(server.id()?);
        let measuring = async {
            tokio::time::sleep(alone).await;
            let (begun_ms, begun) = (now_ms(), Instant::now());
            let reading = Reading::of(&groups);
            tokio::time::sleep(load.time - alone).await;
            (begun_ms, begun.elapsed(), reading.until_now())
        };
        let showing = async {
            let bar = journal.bar(total, "put back");
            loop {
                bar.set_position(arrived.load(Ordering::Relaxed));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let (handed_in, arrivals, (begun_ms, measured, usage)) = tokio::select! {
            done = async { tokio::join!(handing_in, taking, measuring) } => done,
            () = showing => bail!("nothing is shown"),
        };
        let (handed_in, arrivals) = (handed_in??, arrivals??);
        let window = begun_ms..begun_ms + measured.as_secs_f64() * 1e3;
        let put_back = arrivals
            .times
            .iter()
            .filter(|(_, seen)| window.contains(seen));
        let messages = put_back.count() as f64;
        let late = arrivals.times.iter().map(|(due, seen)| seen - *due as f64);
        let mut late: Vec<f64> = late.collect();
        late.sort_by(f64::total_cmp);
        let latest = latest_by_second(&arrivals.times);
        Ok(Lived {
            load,
            total,
            offered: total as f64 / handed_in.as_secs_f64(),
            put_back: messages / measured.as_secs_f64(),
            late,
            latest,
            missing: arrivals.missing(),
            doubled: arrivals.doubled,
            usage,
            messages,
            memory: memory.between(alone, load.time),
        })
    }
}

/// The latest of each second in which messages were due.
fn latest_by_second(times: &[(u64, f64)]) -> Vec<f64> {
    let mut latest: BTreeMap<u64, f64> = BTreeMap::new();
    for (due, seen) in times {
        let most = latest.entry(due / 1000).or_default();
        *most = most.max((seen - *due as f64).round());
    }
    latest.into_values().collect()
}
