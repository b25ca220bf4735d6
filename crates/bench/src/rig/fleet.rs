//! All processes of the cluster, and the one who kills them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{bail, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;

use super::journal::Journal;
use super::life::{Director, Undisturbed};
use super::member::{Ended, Member, Recipe, Role};

/// When all must listen for the first time.
const READY: Duration = Duration::from_secs(60);
/// Longer than any lease: others take over what a frozen process holds.
const FROZEN: Duration = Duration::from_secs(8);

/// A process that is frozen until this is dropped.
struct Frozen<'a> {
    member: &'a Member,
    pid: u32,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.member.thaw(self.pid);
    }
}

/// Every process.
pub(crate) struct Fleet {
    members: Vec<Arc<Member>>,
    kills: Mutex<BTreeMap<Role, u64>>,
    freezes: AtomicU64,
    journal: Arc<Journal>,
    running: Mutex<JoinSet<anyhow::Result<()>>>,
}

impl Fleet {
    /// Starts all of them at the same time, on a database that is still empty.
    pub(crate) async fn start(
        wanted: &[(Role, u64)],
        recipe: Arc<Recipe>,
        journal: Arc<Journal>,
    ) -> anyhow::Result<Arc<Self>> {
        Self::start_directed(wanted, recipe, journal, Arc::new(Undisturbed)).await
    }

    /// The same, with somebody who decides how each of them lives.
    pub(crate) async fn start_directed(
        wanted: &[(Role, u64)],
        recipe: Arc<Recipe>,
        journal: Arc<Journal>,
        director: Arc<dyn Director>,
    ) -> anyhow::Result<Arc<Self>> {
        let mut members = Vec::new();
        let mut running = JoinSet::new();
        for (role, count) in wanted {
            for number in 1..=*count {
                let member = Member::new(
                    *role,
                    number,
                    Arc::clone(&recipe),
                    Arc::clone(&journal),
                    Arc::clone(&director),
                );
                running.spawn(Arc::clone(&member).keep_running());
                members.push(member);
            }
        }
        let fleet = Arc::new(Self {
            kills: Mutex::new(wanted.iter().map(|(role, _)| (*role, 0)).collect()),
            freezes: AtomicU64::new(0),
            members,
            journal,
            running: Mutex::new(running),
        });
        fleet.become_ready().await?;
        Ok(fleet)
    }

    async fn become_ready(&self) -> anyhow::Result<()> {
        let waiting = async {
            for member in &self.members {
                while member.address().is_none() {
                    if let Some(ended) = member.ended().pop() {
                        bail!("{}", ended.what);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Ok(())
        };
        match tokio::time::timeout(READY, waiting).await {
            Ok(ready) => ready,
            Err(_) => bail!("not all processes listen after {} s", READY.as_secs()),
        }
    }

    /// The addresses of the processes that take emails right now.
    pub(crate) fn apis(&self) -> Vec<String> {
        let takes = |role: Role| matches!(role, Role::Whole | Role::Api);
        let apis = self.members.iter().filter(|m| takes(m.role));
        apis.filter_map(|member| member.address()).collect()
    }

    /// Every process.
    pub(crate) fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// Kills one process after the other until dropped.
    pub(crate) async fn kill(&self, every: Duration, seed: u64) {
        if every.is_zero() {
            return std::future::pending().await;
        }
        let mut dice = StdRng::seed_from_u64(seed);
        loop {
            tokio::time::sleep(every).await;
            let member = &self.members[dice.random_range(0..self.members.len())];
            member.kill9();
            self.journal
                .line(&format!("fault: kill -9 {}", member.name));
            let mut kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
            *kills.entry(member.role).or_default() += 1;
        }
    }

    /// Freezes one process after the other until dropped.
    pub(crate) async fn freeze(&self, every: Duration, seed: u64) {
        if every.is_zero() {
            return std::future::pending().await;
        }
        let mut dice = StdRng::seed_from_u64(!seed);
        loop {
            tokio::time::sleep(every).await;
            let member = &self.members[dice.random_range(0..self.members.len())];
            let Some(pid) = member.freeze() else {
                continue;
            };
            let frozen = Frozen { member, pid };
            self.journal
                .line(&format!("fault: {} is frozen", member.name));
            self.freezes.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(FROZEN).await;
            drop(frozen);
            self.journal
                .line(&format!("fault over: {} goes on", member.name));
        }
    }

    /// How often one was frozen.
    pub(crate) fn freezes(&self) -> u64 {
        self.freezes.load(Ordering::Relaxed)
    }

    /// How many were killed of each role.
    pub(crate) fn kills(&self) -> BTreeMap<Role, u64> {
        let kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        kills.clone()
    }

    /// Processes that ended by themselves since the last time this was asked.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        self.members
            .iter()
            .flat_map(|member| member.ended())
            .collect()
    }

    /// Fails if one cannot even be started.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = running.try_join_next() {
            ended??;
        }
        ensure!(running.len() == self.members.len(), "a process is missing");
        Ok(())
    }

    /// Kills all of them.
    pub(crate) async fn stop(&self) {
        let mut running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        running.shutdown().await;
    }
}
