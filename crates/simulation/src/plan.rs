//! What a seed means: which processes there are, which emails come, and what goes wrong.
//!
//! Every kind of fault is left out of half of the runs and frequent in some, so that each is also
//! seen without the others.

mod disaster;
mod letter;
mod rate;

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_core::duration::HumanDuration;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_core::way::BreakerRules;
use posthaste_engine::{Policies, Roles};

pub(crate) use self::disaster::{Deed, Disaster, Mishap};
pub(crate) use self::letter::Post;
pub(crate) use self::rate::{BrokerRates, MailRates, StoreRates};
use crate::random::Random;

/// What the processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// One process with its own queue, as over SQLite.
    Alone,
    /// Several that share a database.
    Database,
    /// Several that share a database and a queue.
    Queue,
    /// The same, and the queue loses every ticket it confirms, also when the trouble is over.
    BlackHole,
}

impl Setting {
    /// Whether there is a queue that the processes share.
    pub(crate) const fn is_queued(self) -> bool {
        matches!(self, Self::Queue | Self::BlackHole)
    }
}

/// Everything that is decided before a run begins.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) setting: Setting,
    pub(crate) processes: Vec<Roles>,
    pub(crate) lease: Duration,
    /// When a ticket is taken for lost.
    pub(crate) backstop: Duration,
    /// How long callers wait for a first attempt; `None` if nobody sends at once.
    pub(crate) patience: Option<Duration>,
    pub(crate) connections: usize,
    pub(crate) transports: usize,
    pub(crate) breaker: Option<BreakerRules>,
    pub(crate) posts: Vec<Post>,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) disasters: Vec<Disaster>,
    /// How long there is trouble.
    pub(crate) trouble: Duration,
    pub(crate) store: StoreRates,
    pub(crate) broker: BrokerRates,
    pub(crate) mail: MailRates,
}

impl Plan {
    /// What this seed means.
    pub(crate) fn of(random: &mut Random) -> Self {
        let setting = match random.below(10) {
            0..2 => Setting::Alone,
            2..5 => Setting::Database,
            5..9 => Setting::Queue,
            _ => Setting::BlackHole,
        };
        let processes = processes(setting, random);
        let trouble = random.milliseconds(5_000, 60_000);
        let lease = Duration::from_secs(random.between(3, 15));
        let disasters = disaster::disasters(processes.len(), lease, trouble, random);
        let posts = letter::posts(trouble, &disasters, random);
        Self {
            lease,
            backstop: Duration::from_secs(random.between(2, 10)),
            patience: random
                .happens(700)
                .then(|| random.milliseconds(1_000, 8_000)),
            connections: usize::try_from(random.between(1, 4)).unwrap_or(1),
            transports: if random.happens(300) { 2 } else { 1 },
            breaker: random.happens(500).then(|| breaker(random)),
            deeds: disaster::deeds(&posts, trouble, random),
            store: StoreRates::draw(random),
            broker: BrokerRates::draw(random),
            mail: MailRates::draw(lease, random),
            setting,
            processes,
            disasters,
            posts,
            trouble,
        }
    }

    /// The same plan without anything that goes wrong.
    pub(crate) fn without_trouble(mut self) -> Self {
        self.disasters.clear();
        self.deeds.clear();
        self.store = StoreRates::default();
        self.broker = BrokerRates::default();
        self.mail = MailRates::default();
        self
    }
}

fn processes(setting: Setting, random: &mut Random) -> Vec<Roles> {
    let all = Roles {
        messages: false,
        ..Roles::ALL
    };
    if setting == Setting::Alone {
        return vec![all];
    }
    let only = |api, sender, scheduler| Roles {
        api,
        sender,
        scheduler,
        messages: false,
    };
    match random.below(4) {
        0 => vec![all],
        1 => vec![all; 2],
        2 => vec![all; 3],
        _ => vec![
            only(true, false, false),
            only(false, true, false),
            only(false, true, true),
            only(false, false, true),
        ],
    }
}

fn breaker(random: &mut Random) -> BreakerRules {
    BreakerRules {
        failures: u32::try_from(random.between(2, 5)).unwrap_or(2),
        credential_failures: 2,
        window: Duration::from_secs(60),
        first_probe: Duration::from_secs(random.between(1, 5)),
        longest_probe: Duration::from_secs(10),
        ramp_rate: 5.0,
        ramp_doubling: Duration::from_secs(2),
        ramp: Duration::from_secs(10),
    }
}

/// Policies without jitter, so that what is too early can be told from what is not.
pub(crate) fn policies() -> Policies {
    let policy = |max_attempts, seconds: &[u64], on_unknown, max_unknown_resends| RetryPolicy {
        max_attempts,
        backoff: Backoff::Schedule {
            schedule: seconds
                .iter()
                .map(|s| HumanDuration(Duration::from_secs(*s)))
                .collect(),
        },
        jitter: HumanDuration::default(),
        on_unknown,
        max_unknown_resends,
        expire_after: None,
    };
    let doubling = RetryPolicy {
        backoff: Backoff::Exponential {
            base: HumanDuration(Duration::from_secs(1)),
            factor: 2.0,
            cap: HumanDuration(Duration::from_secs(8)),
        },
        ..policy(6, &[1], OnUnknown::Resend, 2)
    };
    Policies::new(BTreeMap::from([
        (
            "quick".to_owned(),
            policy(4, &[1, 3, 6], OnUnknown::Resend, 1),
        ),
        ("held".to_owned(), policy(3, &[2, 4], OnUnknown::Hold, 1)),
        ("doubling".to_owned(), doubling),
        (
            "long".to_owned(),
            policy(3, &[600, 3600], OnUnknown::Resend, 1),
        ),
    ]))
}
