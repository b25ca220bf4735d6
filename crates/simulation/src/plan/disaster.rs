//! What happens at a certain moment: to processes and servers, and by people.

use std::time::Duration;

use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::Action;

use super::Post;
use crate::process::{Harm, Trap, Where};
use crate::random::Random;

/// Points at which much can go wrong.
const PLACES: [&str; 13] = [
    "accept",
    "accept begun",
    "begin",
    "begin unticketed",
    "connect",
    "recipients",
    "gate",
    "before the dot",
    "after the dot",
    "finish",
    "claim due",
    "publish",
    "settle",
];

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mishap {
    /// A process dies.
    Crash(usize),
    /// A process stands still for a while, and goes on.
    Freeze(usize, Duration),
    /// One of these happens to a process at a point that is still to come.
    Trap(usize, Trap),
    /// A process is asked to stop, and started again.
    Stop(usize),
    /// The database is away.
    StoreAway(Duration),
    /// The broker is away.
    BrokerAway(Duration),
    /// The mail servers take no connection.
    MailAway(Duration),
    /// All tickets are gone.
    Purge,
    /// A ticket comes of an email that does not exist.
    Forge,
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disaster {
    pub(crate) at: Duration,
    pub(crate) mishap: Mishap,
}

/// What an operator does to an email, and when.
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) at: Duration,
    pub(crate) key: String,
    pub(crate) action: Action,
}

fn moment(trouble: Duration, random: &mut Random) -> Duration {
    random.milliseconds(0, u64::try_from(trouble.as_millis()).unwrap_or(u64::MAX))
}

fn trap(pause: Duration, random: &mut Random) -> Trap {
    let at = if random.happens(300) {
        Where::Number(random.between(1, 60))
    } else {
        Where::Place(random.pick::<&str>(&PLACES))
    };
    let harm = if random.happens(500) {
        Harm::Dies
    } else {
        Harm::Freezes(pause)
    };
    Trap { at, harm }
}

/// What goes wrong in a run, in no order.
pub(super) fn disasters(
    processes: usize,
    lease: Duration,
    trouble: Duration,
    random: &mut Random,
) -> Vec<Disaster> {
    let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let one = |random: &mut Random| {
        let process = usize::try_from(random.below(processes as u64)).unwrap_or_default();
        let pause = random.milliseconds(lease / 2, lease * 3);
        let mishap = match random.below(20) {
            0..2 => Mishap::Crash(process),
            2..4 => Mishap::Freeze(process, pause),
            4..14 => Mishap::Trap(process, trap(pause, random)),
            14 => Mishap::Stop(process),
            15 => Mishap::StoreAway(random.milliseconds(500, lease * 2)),
            16 => Mishap::BrokerAway(random.milliseconds(500, 10_000)),
            17 => Mishap::MailAway(random.milliseconds(500, 20_000)),
            18 => Mishap::Purge,
            _ => Mishap::Forge,
        };
        let at = moment(trouble, random);
        Disaster { at, mishap }
    };
    (0..random.below(8)).map(|_| one(random)).collect()
}

/// What operators do in a run, in no order.
pub(super) fn deeds(posts: &[Post], trouble: Duration, random: &mut Random) -> Vec<Deed> {
    let letters: Vec<&str> = posts
        .iter()
        .flat_map(|post| &post.letters)
        .map(|letter| letter.key.as_str())
        .collect();
    let busy = random.happens(400);
    let most = if busy { 6 } else { 0 };
    let one = |random: &mut Random| {
        let actions = [
            Action::Cancel,
            Action::Retry,
            Action::Retry,
            Action::RetryExpired,
            Action::Resolve(Resolution::Sent),
            Action::Resolve(Resolution::Retry),
            Action::Resolve(Resolution::Dead),
            Action::Discard,
            Action::Restore,
            Action::Erase,
        ];
        Deed {
            at: moment(trouble, random),
            key: (*random.pick(&letters)).to_owned(),
            action: *random.pick(&actions),
        }
    };
    (0..random.below(most + 1)).map(|_| one(random)).collect()
}
