//! One run: processes, callers, operators and trouble for a while; then calm, in which everything must
//! drain; then the books are compared.

mod trouble;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::{Action, Violation};

use crate::broker::Queue;
use crate::caller::{Caller, Ledger};
use crate::fleet::{Fleet, Ground};
use crate::gauge::Gauges;
use crate::mail::MailServer;
use crate::nature::Nature;
use crate::panic;
use crate::plan::{self, Plan, Setting};
use crate::planted::PlantedBug;
use crate::process::{Harm, Trap, Where};
use crate::random::Random;
use crate::store::Database;
use crate::tally::Tally;

/// How often is looked whether all is over.
const LOOK: Duration = Duration::from_secs(1);
/// How long it may take until all is over: the longest policy needs less.
const LONGEST_DRAIN: Duration = Duration::from_secs(4 * 3600);

/// What is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which bug is planted, if one is.
    pub planted: Option<PlantedBug>,
    /// Whether the log is kept.
    pub logs: bool,
    /// Nothing goes wrong but this: the process in the first place dies at this point of its first
    /// life. The points are numbered from 1; 0 is never.
    pub dies_at: Option<u64>,
}

/// What was seen in a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What happened, by kind.
    pub tally: Tally,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Every step, if it was kept.
    pub log: Vec<String>,
    /// How many points the process in the first place passed in its first life.
    pub points: u64,
}

/// Runs the engines of one thread.
pub struct Simulator {
    gauges: Gauges,
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulator {
    /// One simulator can do any number of runs, one after the other.
    #[must_use]
    pub fn new() -> Self {
        panic::watch();
        Self {
            gauges: Gauges::new(),
        }
    }

    /// Runs what this seed means. The same seed and options give the same outcome, always.
    #[must_use]
    pub fn run(&self, seed: u64, options: Options) -> Outcome {
        let mut random = Random::new(seed);
        let mut plan = Plan::of(&mut random);
        if options.dies_at.is_some() {
            plan = plan.without_trouble();
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return failed(error.to_string()),
        };
        let (lived, panics) = panic::noted(|| {
            runtime.block_on(async {
                let nature = Arc::new(Nature::new(random.below(u64::MAX), options.logs));
                let points = live(Arc::clone(&nature), plan, self.gauges.clone(), options).await;
                (points, nature)
            })
        });
        let Some((points, nature)) = lived else {
            return failed(panics.join("; "));
        };
        for text in panics {
            nature.breach("panic", text);
        }
        let (tally, violations, log) = nature.seen();
        Outcome {
            tally,
            violations,
            log,
            points,
        }
    }
}

fn failed(detail: String) -> Outcome {
    let invariant = "run";
    Outcome {
        violations: vec![Violation { invariant, detail }],
        ..Outcome::default()
    }
}

/// Makes the ground that a plan wants.
fn ground(nature: &Arc<Nature>, plan: Plan, gauges: Gauges, planted: Option<PlantedBug>) -> Ground {
    let policies = Arc::new(plan::policies());
    let database = Database::new(
        Arc::clone(nature),
        plan.store,
        planted,
        Arc::clone(&policies),
    );
    let is_black_hole = plan.setting == Setting::BlackHole;
    let queue = plan
        .setting
        .is_queued()
        .then(|| Queue::new(Arc::clone(nature), plan.broker, is_black_hole));
    let mail = MailServer::new(
        Arc::clone(nature),
        Arc::clone(&database),
        plan.mail,
        planted,
    );
    Ground {
        nature: Arc::clone(nature),
        plan,
        policies,
        gauges,
        database,
        queue,
        mail,
    }
}

/// The whole run; how many points the first process passed in its first life.
async fn live(nature: Arc<Nature>, plan: Plan, gauges: Gauges, options: Options) -> u64 {
    nature.say("world", || format!("{plan:#?}"));
    let trouble = plan.trouble;
    let beginning = nature.now();
    let ground = Arc::new(ground(&nature, plan, gauges, options.planted));
    let ledger = Arc::new(Ledger::default());
    let fleet = Fleet::start(Arc::clone(&ground));
    tokio::task::yield_now().await;
    let first = fleet.at(0).map(|life| Arc::clone(&life.process));
    if let (Some(first), Some(points @ 1..)) = (&first, options.dies_at) {
        first.set(Trap {
            at: Where::Number(points),
            harm: Harm::Dies,
        });
    }
    let callers: Vec<_> = ground
        .plan
        .posts
        .iter()
        .map(|post| {
            let caller = Caller {
                fleet: Arc::clone(&fleet),
                ledger: Arc::clone(&ledger),
                beginning,
                post: post.clone(),
            };
            tokio::spawn(caller.run())
        })
        .collect();
    trouble::begin(&fleet, &ledger);
    tokio::time::sleep(trouble).await;
    trouble::end(&fleet).await;
    for caller in callers {
        let _ = caller.await;
    }
    drain(&ground).await;
    if !nature.is_broken() && resolve(&fleet).await {
        drain(&ground).await;
    }
    ground.check(&ledger);
    first.map_or(0, |process| process.points())
}

/// Waits until nothing is left to do.
async fn drain(ground: &Ground) {
    let nature = &ground.nature;
    let (calm_since, began) = (nature.now(), nature.elapsed());
    while !nature.is_broken() {
        tokio::time::sleep(LOOK).await;
        ground.check_leases(calm_since);
        if ground.is_drained() {
            return;
        }
        if nature.elapsed() - began > LONGEST_DRAIN {
            return nature.breach("I5", format!("does not drain: {}", ground.left_over()));
        }
    }
}

/// An operator resolves what is left to them, one way or another; whether there was anything.
async fn resolve(fleet: &Fleet) -> bool {
    let ground = &fleet.ground;
    let held = ground.held();
    let Some(life) = fleet.any_api() else {
        return false;
    };
    for id in &held {
        let ways = [Resolution::Sent, Resolution::Retry, Resolution::Dead];
        let way = ground.nature.draw(|random| *random.pick(&ways));
        let action = Action::Resolve(way);
        let _ = life
            .engine
            .operator
            .act(*id, action, &trouble::person())
            .await;
    }
    !held.is_empty()
}
