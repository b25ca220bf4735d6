//! One process: it can die at any point, or stand still for a while.
//!
//! The engine runs as it is, with all its tasks. What makes it a process is that it reaches the
//! world only through ports, and that every port asks here first. From its death on no call of it
//! has any effect or comes back; while it stands still none does either. Between two calls a
//! process changes nothing that anyone else can see, so that dying at each call, before and after its
//! effect, is dying at every await.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::nature::Nature;

/// One process, from its start to its death.
pub(crate) struct Process {
    /// Its name in leases and in the log: which process, and which of its lives.
    pub(crate) name: String,
    nature: Arc<Nature>,
    condition: Mutex<Condition>,
    death: Notify,
}

#[derive(Debug, Default)]
struct Condition {
    is_dead: bool,
    frozen_until: Option<Instant>,
    /// How many points it has passed.
    points: u64,
    traps: Vec<Trap>,
}

/// What happens to a process at a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trap {
    /// At which.
    pub(crate) at: Where,
    /// What.
    pub(crate) harm: Harm,
}

/// A point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Where {
    /// The one with this number; so many from now on, where a trap is set.
    Number(u64),
    /// The next of this name.
    Place(&'static str),
}

/// What a trap does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// The process dies.
    Dies,
    /// It stands still for this long.
    Freezes(Duration),
}

enum Step {
    Goes,
    Waits(Instant),
    Ends,
}

impl Process {
    pub(crate) fn new(name: String, nature: Arc<Nature>) -> Arc<Self> {
        Arc::new(Self {
            name,
            nature,
            condition: Mutex::default(),
            death: Notify::new(),
        })
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A point at which it may die or stand still. Does not come back from death.
    pub(crate) async fn point(&self, place: &'static str) {
        match self.sprung(place) {
            Some(Harm::Dies) => self.die(place),
            Some(Harm::Freezes(time)) => self.freeze(place, time),
            None => {}
        }
        self.awake().await;
    }

    /// Counts a point; what happens to the process there.
    fn sprung(&self, place: &'static str) -> Option<Harm> {
        let mut condition = self.condition();
        condition.points += 1;
        let point = condition.points;
        let is_here = |trap: &Trap| match trap.at {
            Where::Number(number) => number == point,
            Where::Place(name) => name == place,
        };
        let at = condition.traps.iter().position(is_here)?;
        let trap = condition.traps.remove(at);
        (!condition.is_dead).then_some(trap.harm)
    }

    /// Goes on when the process does.
    pub(crate) async fn awake(&self) {
        loop {
            match self.step() {
                Step::Goes => return,
                Step::Waits(until) => tokio::time::sleep_until(until).await,
                Step::Ends => std::future::pending().await,
            }
        }
    }

    fn step(&self) -> Step {
        let condition = self.condition();
        match condition.frozen_until {
            _ if condition.is_dead => Step::Ends,
            Some(until) if until > Instant::now() => Step::Waits(until),
            _ => Step::Goes,
        }
    }

    /// Goes on unless the process is dead: for what is under way outside of it.
    pub(crate) async fn alive(&self) {
        if self.is_dead() {
            std::future::pending().await
        }
    }

    /// It dies, here and now.
    pub(crate) fn die(&self, place: &str) {
        {
            let mut condition = self.condition();
            if condition.is_dead {
                return;
            }
            condition.is_dead = true;
        }
        self.nature.count("deaths of processes");
        self.nature.say(&self.name, || format!("dies: {place}"));
        self.death.notify_waiters();
    }

    /// Something happens to it at a point that is still to come.
    pub(crate) fn set(&self, mut trap: Trap) {
        let mut condition = self.condition();
        if let Where::Number(number) = &mut trap.at {
            *number += condition.points;
        }
        condition.traps.push(trap);
    }

    /// It stands still for this long, from now on.
    pub(crate) fn freeze(&self, place: &str, time: Duration) {
        self.nature.count("frozen processes");
        self.nature
            .say(&self.name, || format!("stands still for {time:?}: {place}"));
        let mut condition = self.condition();
        condition.frozen_until = condition.frozen_until.max(Some(Instant::now() + time));
    }

    /// Nothing that was to happen to it happens any more.
    pub(crate) fn spare(&self) {
        self.condition().traps.clear();
    }

    /// Until when it stands still, if it does.
    pub(crate) fn frozen_until(&self) -> Option<Instant> {
        let until = self.condition().frozen_until;
        until.filter(|until| *until > Instant::now())
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.condition().is_dead
    }

    /// How many points it has passed.
    pub(crate) fn points(&self) -> u64 {
        self.condition().points
    }

    /// Ends when it is dead.
    pub(crate) async fn death(&self) {
        loop {
            let death = self.death.notified();
            tokio::pin!(death);
            death.as_mut().enable();
            if self.is_dead() {
                return;
            }
            death.await;
        }
    }
}
