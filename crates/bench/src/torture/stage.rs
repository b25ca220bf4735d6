//! The play: load, an operator and faults together, then waiting until everything is drained.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use posthaste_sink::{Mode, Sink};
use tokio::sync::{mpsc, watch};

use super::doom::Dooms;
use super::fault::{Disk, Plan};
use super::load::{self, Load};
use super::operator::Operator;
use super::options::{Options, Script};
use super::soak::Samples;
use crate::evidence::drain;
use crate::evidence::ledger::Ledger;
use crate::evidence::stored::Books;
use crate::rig::fleet::Fleet;
use crate::rig::journal::Journal;
use crate::rig::outage::Outages;
use crate::rig::proxy::{Network, Proxy};
use crate::rig::services::Services;
use crate::rig::stand::Store;
use crate::rig::vital::Vital;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Load without faults before the first and after the last of them, where only one thing fails.
const BEFORE_AND_AFTER: Duration = Duration::from_secs(2);
/// For how long PostgreSQL is away when it is only restarted, and how long it works in between.
const AWAY: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_secs(2);

/// Everyone who takes part.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) store: Store,
    pub(super) seed: u64,
    /// A prefix of the names of all queues.
    pub(super) run: &'a str,
    pub(super) services: Option<&'a Services>,
    pub(super) database_network: Option<&'a Proxy>,
    pub(super) rabbitmq_network: Option<&'a Proxy>,
    pub(super) mail_network: &'a Proxy,
    pub(super) disk: Option<&'a Disk>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) outages: Arc<Outages>,
    pub(super) books: Books,
    pub(super) sink: &'a Sink,
    pub(super) dooms: Arc<Dooms>,
    pub(super) journal: &'a Journal,
    /// How often each fault happened.
    pub(super) faults: Mutex<BTreeMap<&'static str, u64>>,
    /// How often all faults happened.
    pub(super) rounds: AtomicU64,
}

/// What happened.
#[derive(Default)]
pub(super) struct Played {
    /// What the operator did.
    pub(super) acts: BTreeMap<&'static str, u64>,
    /// The most that any process had.
    pub(super) most: Vital,
    /// What is left, if the limit was hit.
    pub(super) not_drained: Option<String>,
    /// What was seen over a long time.
    pub(super) samples: Option<Samples>,
}

impl Stage<'_> {
    pub(super) fn count(&self, fault: &'static str) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        *faults.entry(fault).or_default() += 1;
    }

    /// Plays everything.
    pub(super) async fn play(&self) -> anyhow::Result<Played> {
        let (stop, stopped) = watch::channel(false);
        let (withdraw, withdrawn) = mpsc::unbounded_channel();
        let script = self.options.script();
        let load = Load {
            seed: self.seed,
            rate: self.options.rate,
            clients: self.options.clients,
            mild: !matches!(script, Script::Torture { .. }),
            withdrawn: withdraw,
        };
        let mut operator = Operator::new(Arc::clone(&self.fleet), self.seed, withdrawn);
        let mut played = Played::default();
        let posting = load::post(load, &self.fleet, &self.ledger, &stopped);
        let breaking = async {
            played.samples = tokio::select! {
                broken = self.break_things(script) => broken?,
                worked = operator.work() => {
                    worked?;
                    bail!("nobody is at the desk")
                }
            };
            self.journal.line("no more faults: waiting for the rest");
            self.calm();
            stop.send_replace(true);
            anyhow::Ok(())
        };
        let both = async { tokio::try_join!(posting, breaking) };
        tokio::select! {
            done = both => drop(done?),
            () = played.most.watch(&self.fleet) => bail!("nobody watches"),
        }
        let draining = self.drain(&mut operator, script);
        played.not_drained = match tokio::time::timeout(self.options.limit.0, draining).await {
            Ok(drained) => {
                drained?;
                None
            }
            Err(_) => {
                let left = drain::what_is_left(&self.fleet, &self.books).await;
                Some(format!("not drained within {}: {left}", self.options.limit))
            }
        };
        played.acts = operator.acts();
        Ok(played)
    }

    async fn drain(&self, operator: &mut Operator, script: Script) -> anyhow::Result<()> {
        operator.clear_the_desk().await?;
        drain::drained(&self.fleet, &self.books).await?;
        if matches!(script, Script::Torture { .. }) {
            // What died only because too many workers were lost over it must go through now.
            operator.retry_all_dead().await;
            operator.until_operations_end().await;
            drain::drained(&self.fleet, &self.books).await?;
        }
        Ok(())
    }

    /// Whatever is broken works again.
    fn calm(&self) {
        self.dooms.calm();
        self.sink.set_mode(Mode::Normal);
        let ways = [self.database_network, self.rabbitmq_network];
        for way in ways.into_iter().flatten().chain([self.mail_network]) {
            way.set(Network::Works);
        }
    }

    async fn break_things(&self, script: Script) -> anyhow::Result<Option<Samples>> {
        match script {
            Script::Torture {
                kills,
                time,
                every_fault,
            } => {
                let until = time.map(|time| Instant::now() + time);
                let is_enough = || {
                    let killed = kills.is_some_and(|kills| self.dooms.deaths().all() >= kills);
                    let late = until.is_some_and(|until| Instant::now() >= until);
                    let rounds = self.rounds.load(Ordering::SeqCst);
                    (killed || late) && (!every_fault || rounds > 0)
                };
                self.torture(is_enough).await?;
            }
            Script::RabbitMqAway(away) => {
                tokio::time::sleep(BEFORE_AND_AFTER).await;
                let services = self.services.context("no RabbitMQ")?;
                self.journal.line("fault: RabbitMQ is away");
                services.restart_rabbitmq_after(away).await?;
                self.journal.line("fault over: RabbitMQ is back");
                self.count("RabbitMQ crashed");
                tokio::time::sleep(BEFORE_AND_AFTER).await;
            }
            Script::PostgresRestarts(times) => {
                let services = self.services.context("no PostgreSQL")?;
                for _ in 0..times {
                    tokio::time::sleep(BETWEEN).await;
                    let outage = self.outages.begin();
                    let restarted = services.restart_postgres(AWAY).await;
                    self.outages.end(outage);
                    restarted?;
                    self.journal.line("PostgreSQL was crashed and restarted");
                    self.count("database crashed");
                }
                tokio::time::sleep(BEFORE_AND_AFTER).await;
            }
            Script::Soak(time) => {
                let samples = Samples::take(self, time).await?;
                return Ok(Some(samples));
            }
        }
        Ok(None)
    }

    /// Kills and all other faults until it is enough.
    async fn torture(&self, is_enough: impl Fn() -> bool) -> anyhow::Result<()> {
        let mut plan = Plan::new(
            self.store,
            self.seed,
            self.options.gap.0,
            self.disk.is_some(),
        );
        self.dooms.begin();
        for member in self.fleet.members() {
            member.kill9();
            tokio::time::sleep(self.options.pace.0).await;
        }
        while !is_enough() {
            self.fleet.check()?;
            if self.inflict_next(&mut plan, &is_enough).await? {
                self.rounds.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Waits, unless it is enough meanwhile.
    pub(super) async fn wait(&self, time: Duration, is_enough: impl Fn() -> bool) {
        let until = Instant::now() + time;
        while Instant::now() < until && !is_enough() {
            tokio::time::sleep(LOOK_EVERY.min(time)).await;
        }
    }
}
