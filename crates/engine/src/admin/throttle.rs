//! Slows down whoever guesses passwords, without shutting out whoever knows one.
//!
//! Each failure costs time. Whoever has none left must wait until enough of it came back. What
//! counts most is the name together with where it is tried from: a stranger who fails with an
//! admin's name hardly disturbs the admin, who is elsewhere. An address that tries many names, and
//! a name that is tried from many addresses, are slowed down, too, later and less; but not for
//! those who have logged in from there before. Nothing is ever locked for good. How much is
//! remembered is bounded, however many names and addresses are tried.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// At most this many names and addresses are remembered.
const MOST_REMEMBERED: usize = 10_000;
/// Of so many it is remembered that they have logged in; the newest ones.
const MOST_KNOWN: usize = 1_000;

/// How often something may fail in a row, and how long it takes to earn one more try.
#[derive(Debug, Clone, Copy)]
struct Pace {
    in_a_row: u32,
    one_more: Duration,
}

const BY_BOTH: Pace = Pace {
    in_a_row: 10,
    one_more: Duration::from_secs(15),
};
/// More generous: a whole office may have the same address.
const BY_PEER: Pace = Pace {
    in_a_row: 50,
    one_more: Duration::from_secs(2),
};
/// The most generous: nobody chooses who tries their name.
const BY_NAME: Pace = Pace {
    in_a_row: 100,
    one_more: Duration::from_secs(1),
};

/// The hash of a name, which may be longer than any real one.
type NameHash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Both(NameHash, IpAddr),
    Peer(IpAddr),
    Name(NameHash),
}

impl Key {
    const fn pace(&self) -> Pace {
        match self {
            Self::Both(..) => BY_BOTH,
            Self::Peer(_) => BY_PEER,
            Self::Name(_) => BY_NAME,
        }
    }
}

/// What an attempt to log in is charged to, the narrowest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt([Key; 3]);

impl Attempt {
    pub(super) fn new(name: &str, peer: IpAddr) -> Self {
        let peer = match peer.to_canonical() {
            // A customer of a provider has all addresses of such a network.
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => address,
        };
        let name = Sha256::digest(name.as_bytes()).into();
        Self([Key::Both(name, peer), Key::Peer(peer), Key::Name(name)])
    }
}

/// Who has failed how often of late.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When all failures are forgotten.
    forgotten_at: HashMap<Key, Instant>,
    /// Names that have logged in, each with where from, the newest last.
    known: VecDeque<Key>,
}

impl Throttle {
    /// Charges an attempt before its password is looked at, so that many at once count, too. Or
    /// says how long to wait: then it costs nothing.
    pub(super) fn charge(&mut self, attempt: &Attempt, now: Instant) -> Result<(), Duration> {
        let keys = self.charged(attempt);
        let wait = keys.iter().map(|key| self.wait(key, now)).max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        for key in keys {
            if !self.forgotten_at.contains_key(key) {
                self.make_room(now);
            }
            let at = self.forgotten_at.entry(*key).or_insert(now);
            *at = (*at).max(now) + key.pace().one_more;
        }
        Ok(())
    }

    /// Takes back what an attempt was charged that did not fail.
    pub(super) fn give_back(&mut self, attempt: &Attempt) {
        for key in self.charged(attempt) {
            if let Some(at) = self.forgotten_at.get_mut(key)
                && let Some(earlier) = at.checked_sub(key.pace().one_more)
            {
                *at = earlier;
            }
        }
    }

    /// The same for one that led to a login.
    pub(super) fn welcome(&mut self, attempt: &Attempt) {
        self.give_back(attempt);
        let [both, ..] = attempt.0;
        self.known.retain(|known| *known != both);
        self.known.push_back(both);
        if self.known.len() > MOST_KNOWN {
            self.known.pop_front();
        }
    }

    /// What an attempt is charged to. Whoever has logged in from there before answers for nobody
    /// else's failures.
    fn charged<'a>(&self, attempt: &'a Attempt) -> &'a [Key] {
        if self.known.contains(&attempt.0[0]) {
            &attempt.0[..1]
        } else {
            &attempt.0
        }
    }

    fn wait(&self, key: &Key, now: Instant) -> Duration {
        let Pace { in_a_row, one_more } = key.pace();
        let owed = self
            .forgotten_at
            .get(key)
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        (owed + one_more).saturating_sub(one_more * in_a_row)
    }

    /// Forgets who has nothing to wait for; if that is not enough, those who are forgotten soonest,
    /// some at a time.
    fn make_room(&mut self, now: Instant) {
        if self.forgotten_at.len() < MOST_REMEMBERED {
            return;
        }
        self.forgotten_at.retain(|_, at| *at > now);
        if self.forgotten_at.len() >= MOST_REMEMBERED {
            let mut times: Vec<Instant> = self.forgotten_at.values().copied().collect();
            let (_, soon, _) = times.select_nth_unstable(MOST_REMEMBERED / 10);
            self.forgotten_at.retain(|_, at| *at > *soon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// How many tries pass at once.
    fn passes(throttle: &mut Throttle, attempt: impl Fn(u32) -> Attempt, now: Instant) -> u32 {
        let tries = (0..1000).take_while(|n| throttle.charge(&attempt(*n), now).is_ok());
        u32::try_from(tries.count()).unwrap()
    }

    #[test]
    fn a_name_can_be_tried_some_times_from_one_place_and_then_now_and_then() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let ann = |_| Attempt::new("ann", from(1));
        assert_eq!(passes(&mut throttle, ann, now), BY_BOTH.in_a_row);
        assert_eq!(throttle.charge(&ann(0), now), Err(BY_BOTH.one_more));
        let bob = Attempt::new("bob", from(1));
        assert_eq!(throttle.charge(&bob, now), Ok(()), "another name");
        let elsewhere = Attempt::new("ann", from(2));
        assert_eq!(throttle.charge(&elsewhere, now), Ok(()), "from elsewhere");
        let later = now + BY_BOTH.one_more;
        assert_eq!(passes(&mut throttle, ann, later), 1);
        let much_later = later + BY_BOTH.one_more * BY_BOTH.in_a_row;
        assert_eq!(passes(&mut throttle, ann, much_later), BY_BOTH.in_a_row);
    }

    #[test]
    fn a_name_can_be_tried_often_from_many_places_and_then_once_in_a_while() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let ann = |n: u32| Attempt::new("ann", IpAddr::from(n.to_be_bytes()));
        assert_eq!(passes(&mut throttle, ann, now), BY_NAME.in_a_row);
        assert_eq!(throttle.charge(&ann(999), now), Err(BY_NAME.one_more));
        assert_eq!(passes(&mut throttle, ann, now + BY_NAME.one_more), 1);
    }

    #[test]
    fn an_address_can_try_some_names_and_then_now_and_then() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let stranger = |n: u32| Attempt::new(&format!("name {n}"), from(1));
        assert_eq!(passes(&mut throttle, stranger, now), BY_PEER.in_a_row);
        assert_eq!(throttle.charge(&stranger(999), now), Err(BY_PEER.one_more));
        let other = Attempt::new("name 0", from(2));
        assert_eq!(throttle.charge(&other, now), Ok(()), "another address");
    }

    #[test]
    fn who_has_logged_in_before_is_not_shut_out_by_others() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let ann = Attempt::new("ann", from(1));
        assert_eq!(throttle.charge(&ann, now), Ok(()));
        throttle.welcome(&ann);
        // Someone in the same office tries many names, and someone with many addresses tries hers.
        passes(
            &mut throttle,
            |n| Attempt::new(&format!("name {n}"), from(1)),
            now,
        );
        let robot = |n: u32| Attempt::new("ann", IpAddr::from(n.to_be_bytes()));
        passes(&mut throttle, robot, now);
        assert!(throttle.charge(&robot(999), now).is_err());
        assert_eq!(passes(&mut throttle, |_| ann, now), BY_BOTH.in_a_row);
    }

    #[test]
    fn the_newest_logins_are_remembered() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let admin = |n: usize| Attempt::new(&format!("name {n}"), from(1));
        for n in 0..=MOST_KNOWN {
            assert_eq!(throttle.charge(&admin(n), now), Ok(()));
            throttle.welcome(&admin(n));
        }
        assert_eq!(throttle.known.len(), MOST_KNOWN);
        assert_eq!(throttle.charged(&admin(0)).len(), 3, "forgotten");
        assert_eq!(throttle.charged(&admin(1)).len(), 1);
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let stranger = |n: u32| {
            let peer: IpAddr = format!("2001:db8:1:2::{n:x}").parse().unwrap();
            Attempt::new(&format!("name {n}"), peer)
        };
        assert_eq!(passes(&mut throttle, stranger, now), BY_PEER.in_a_row);
    }

    #[test]
    fn a_success_costs_nothing() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let ann = Attempt::new("ann", from(1));
        for _ in 0..1000 {
            assert_eq!(throttle.charge(&ann, now), Ok(()));
            throttle.give_back(&ann);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_worst_are_remembered_longest() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let ann = |_| Attempt::new("ann", from(1));
        passes(&mut throttle, ann, now);
        for n in 0..u32::try_from(MOST_REMEMBERED).unwrap() {
            let peer = IpAddr::from(n.to_be_bytes());
            let _ = throttle.charge(&Attempt::new(&format!("name {n}"), peer), now);
        }
        assert!(throttle.forgotten_at.len() <= MOST_REMEMBERED);
        assert!(throttle.charge(&ann(0), now).is_err(), "not forgotten");
    }
}
