//! Who dies where: decides about each life of each process, and counts what came of it.
//!
//! A process is told at its start at which failpoint it will be killed, or it is killed at a random
//! moment. Places at which nobody died yet come first, so that a run comes by all of them.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::place;
use crate::rig::life::{Death, Director, Life};
use crate::rig::member::Member;
use crate::rig::outage::Outages;
use crate::rig::stand::Store;

/// `abort`, which is how a failpoint kills.
const ABORTED: i32 = 6;
/// `kill -9`, which is how an injected signal kills.
const KILLED: i32 = 9;
/// For so long a process may wait for a place at which nobody died yet.
const LONGEST: Duration = Duration::from_secs(3);
/// A process that froze at a failpoint goes on after this time, longer than any lease.
const FROZEN: Duration = Duration::from_secs(4);
/// By how many seconds the clock of a host may be wrong.
const STEPS: [i64; 4] = [3_600, -3_600, 31_536_000, -31_536_000];

/// How one life is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doom {
    /// Nobody kills it.
    None,
    /// At a random moment.
    Moment,
    /// At a failpoint.
    Place(&'static str),
    /// It freezes at a failpoint, and is killed at some time after it went on.
    Freeze(&'static str),
    /// At one of its next calls of `fsync`.
    Fsync,
    /// One of its next calls of `fsync` fails; it goes on, or gives up.
    FsyncError,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Deaths {
    /// How many processes were killed, by how.
    pub(super) kills: BTreeMap<&'static str, u64>,
    /// How many died at each failpoint.
    pub(super) places: BTreeMap<&'static str, u64>,
    /// How many froze at a failpoint.
    pub(super) froze: u64,
    /// How many had a clock that is wrong.
    pub(super) wrong_clocks: u64,
    /// How many had an `fsync` that failed.
    pub(super) fsync_errors: u64,
    /// How long each took from its start until it listened, in milliseconds.
    pub(super) starts_ms: Vec<f64>,
}

impl Deaths {
    pub(super) fn all(&self) -> u64 {
        self.kills.values().sum()
    }
}

struct State {
    dice: StdRng,
    /// What each process is doomed to.
    dooms: HashMap<String, Doom>,
    /// How often somebody was to die at each place.
    tries: HashMap<&'static str, u64>,
    /// While one has a disk that fails, it may put off its clients.
    failing: HashMap<String, usize>,
    deaths: Deaths,
}

/// Decides about lives.
pub(super) struct Dooms {
    store: Store,
    /// How long a life is on average.
    mean: Duration,
    /// Whether the binary has failpoints.
    has_failpoints: bool,
    /// Whether system calls can be tampered with.
    has_strace: bool,
    is_calm: AtomicBool,
    outages: Arc<Outages>,
    state: Mutex<State>,
}

impl Dooms {
    /// Nobody dies until [`Dooms::begin`].
    pub(super) fn new(
        store: Store,
        mean: Duration,
        seed: u64,
        has_failpoints: bool,
        has_strace: bool,
        outages: Arc<Outages>,
    ) -> Self {
        Self {
            store,
            mean,
            has_failpoints,
            has_strace: has_strace && store == Store::Sqlite,
            is_calm: AtomicBool::new(true),
            outages,
            state: Mutex::new(State {
                dice: StdRng::seed_from_u64(seed),
                dooms: HashMap::new(),
                tries: HashMap::new(),
                failing: HashMap::new(),
                deaths: Deaths::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on every new life is doomed.
    pub(super) fn begin(&self) {
        self.is_calm.store(false, Ordering::SeqCst);
    }

    /// From now on new lives are long.
    pub(super) fn calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(super) fn deaths(&self) -> Deaths {
        self.state().deaths.clone()
    }

    fn choose(&self, member: &Member, state: &mut State) -> Doom {
        let throw = state.dice.random_range(0..100);
        if self.has_strace && throw >= 94 {
            return match throw {
                94..=97 => Doom::Fsync,
                _ => Doom::FsyncError,
            };
        }
        if !self.has_failpoints || throw >= 75 {
            return Doom::Moment;
        }
        let places = place::of(member.role, self.store);
        // A place at which somebody died counts as more than one that nobody came by.
        let told = |place: &str| {
            let tries = state.tries.get(place).copied().unwrap_or(0);
            tries + state.deaths.places.get(place).copied().unwrap_or(0)
        };
        let fewest = places.iter().map(|place| told(place)).min();
        let rare: Vec<_> = places
            .iter()
            .copied()
            .filter(|place| Some(told(place)) == fewest)
            .collect();
        // Mostly where fewest were told to, but now and then anywhere.
        let among = match throw % 4 {
            0 => &places,
            _ => &rare,
        };
        let place = among[state.dice.random_range(0..among.len())];
        *state.tries.entry(place).or_default() += 1;
        match throw < 1 {
            true => Doom::Freeze(place),
            false => Doom::Place(place),
        }
    }
}

/// At which visit of a place. Of busy ones any of the first fifty, small numbers more often.
fn visit(place: &str, dice: &mut StdRng) -> u32 {
    if !place::is_busy(place) || dice.random_ratio(1, 3) {
        return 1;
    }
    50_f64.powf(dice.random_range(0.0..1.0)) as u32
}

fn strace(inject: &str) -> Vec<String> {
    // `-D`: what is traced stays our child, so that killing it kills it.
    let arguments = "strace -D -f -qq -o /dev/null -e trace=fsync,fdatasync -e";
    let mut words: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
    words.push(format!("inject=fsync,fdatasync:{inject}"));
    words
}

impl Director for Dooms {
    fn life(&self, member: &Member) -> Life {
        let mut state = self.state();
        let state = &mut *state;
        if self.is_calm.load(Ordering::SeqCst) {
            state.dooms.insert(member.name.clone(), Doom::None);
            return Life::default();
        }
        let doom = self.choose(member, state);
        state.dooms.insert(member.name.clone(), doom);
        let limit = self.mean.mul_f64(state.dice.random_range(0.3..1.7));
        let mut life = Life {
            limit: Some(limit),
            ..Life::default()
        };
        let when = state.dice.random_range(1..40);
        match doom {
            Doom::None | Doom::Moment => {}
            Doom::Place(place) | Doom::Freeze(place) => {
                let is_new = !state.deaths.places.contains_key(place);
                let visit = if is_new {
                    1
                } else {
                    visit(place, &mut state.dice)
                };
                let freezes = matches!(doom, Doom::Freeze(_));
                let action = if freezes { "stop" } else { "kill" };
                let plan = format!("{place}={action}@{visit}");
                life.variables
                    .push(("POSTHASTE_FAILPOINT".to_owned(), plan));
                if is_new {
                    life.limit = Some(limit.max(LONGEST));
                }
                if freezes {
                    life.limit = Some(limit + 2 * FROZEN);
                    life.thaw_after = Some(FROZEN);
                }
            }
            Doom::Fsync => {
                life.under = strace(&format!("signal=KILL:when={when}"));
                life.limit = Some(limit.max(LONGEST));
            }
            Doom::FsyncError => {
                life.under = strace(&format!("error=EIO:when={when}"));
                life.limit = Some(limit.max(LONGEST / 2));
                state.deaths.fsync_errors += 1;
                state
                    .failing
                    .insert(member.name.clone(), self.outages.begin());
            }
        }
        // The time of a SQLite file is its host's; that of PostgreSQL is PostgreSQL's.
        if self.has_failpoints && self.store != Store::Sqlite && state.dice.random_ratio(1, 5) {
            let step = STEPS[state.dice.random_range(0..STEPS.len())];
            let variable = ("POSTHASTE_CLOCK_STEP".to_owned(), step.to_string());
            life.variables.push(variable);
            state.deaths.wrong_clocks += 1;
        }
        life
    }

    fn listens(&self, _member: &Member, after: Duration) {
        let mut state = self.state();
        state.deaths.starts_ms.push(after.as_secs_f64() * 1000.0);
    }

    fn froze(&self, _member: &Member) {
        // What it was asked just before, it answers too late.
        self.outages.lasts(FROZEN);
        self.state().deaths.froze += 1;
    }

    fn over(&self, member: &Member, death: &Death) -> bool {
        let mut state = self.state();
        let doom = state.dooms.get(&member.name).copied().unwrap_or(Doom::None);
        if let Some(outage) = state.failing.remove(&member.name) {
            self.outages.end(outage);
        }
        let deaths = &mut state.deaths;
        let (how, is_meant) = match (death, doom) {
            (Death::Killed | Death::Limit, _) => (Some("at a random moment"), true),
            (Death::ByItself(status), Doom::Place(place)) if status.signal() == Some(ABORTED) => {
                *deaths.places.entry(place).or_default() += 1;
                (Some("at a failpoint"), true)
            }
            (Death::ByItself(status), Doom::Fsync) if status.signal() == Some(KILLED) => {
                (Some("at an fsync"), true)
            }
            // It may give up over a disk that fails, but in order.
            (Death::ByItself(status), Doom::FsyncError) => (None, status.code().is_some()),
            (Death::ByItself(status), _) => (None, member.is_asked_to_end() && status.success()),
        };
        if let Some(how) = how {
            *deaths.kills.entry(how).or_default() += 1;
        }
        is_meant
    }
}
