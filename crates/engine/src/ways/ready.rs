//! Which parked emails may go, and when to look again.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::port::{Pick, SharedStore, StoreResult};
use posthaste_core::way::{BreakerRules, Condition, WayName, ways_of};
use tokio::time::Instant;

use super::pace::Full;
use super::{DEFAULT_ROUTE, Ways};

/// Without other news, the ways are looked at this often.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// While emails wait.
const LOOKS_OFTEN: Duration = Duration::from_millis(200);
/// A sender that was not heard of for so long is gone.
const PRESENT: Duration = Duration::from_secs(30);

/// What may go now.
pub(crate) struct Ready {
    /// What emails wait for, and which of them may go.
    pub(crate) parked: Vec<(String, Pick)>,
    /// When to look again.
    pub(crate) again_in: Duration,
}

impl Ways {
    /// Looks into the store how the ways do. `sender`: who looks, to be counted among those who
    /// share the limits.
    pub(crate) async fn look(&self, store: &SharedStore, sender: Option<&str>) -> StoreResult<()> {
        let lessons = self.lessons();
        self.update(store.watch_ways(sender, PRESENT).await?, lessons);
        Ok(())
    }

    /// Whether it matters how many senders there are.
    pub(crate) fn shares_limits(&self) -> bool {
        let by_transport = self.exits.values().any(|exit| exit.limits.is_any());
        let by_domain = self.limits_by_domain.values().any(super::Limits::is_any);
        let seen = || {
            let view = self.view.read();
            !view
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .ways
                .is_empty()
        };
        by_transport || by_domain || self.domain_limits.is_any() || seen()
    }

    /// Ends when something may have become free.
    pub(crate) async fn freed(&self) {
        self.wake.notified().await;
    }

    /// Nobody waits for this any more.
    pub(crate) fn is_drained(&self, waiting_for: &str) {
        self.backlog().remove(waiting_for);
    }

    /// What may go now.
    pub(crate) fn ready(&self, now: Timestamp) -> Ready {
        let keys: Vec<String> = self.backlog().iter().cloned().collect();
        let mut ready = Ready {
            parked: Vec::new(),
            again_in: if keys.is_empty() {
                LOOKS_EVERY
            } else {
                LOOKS_OFTEN
            },
        };
        for key in keys {
            match self.room(&key, now) {
                Ok(room) => ready.parked.push((key, room)),
                Err(wait) => ready.again_in = ready.again_in.min(wait),
            }
        }
        ready
    }

    /// Which of those who wait for this may go, or when to ask again.
    fn room(&self, waiting_for: &str, now: Timestamp) -> Result<Pick, Duration> {
        let mut most = 0;
        let mut is_test = false;
        let mut soonest = LOOKS_EVERY;
        let mut is_known = false;
        for way in ways_of(waiting_for).filter(|way| self.exits.contains_key(&way.transport)) {
            is_known = true;
            match self.room_of(&way, now) {
                Ok(Pick::UpTo(room)) => most = most.max(room),
                Ok(Pick::Longest) => is_test = true,
                Err(wait) => soonest = soonest.min(wait),
            }
        }
        match most {
            // Nothing of that name is there any more: they find another way when they are tried.
            _ if !is_known => Ok(Pick::UpTo(if self.routes.contains_key(DEFAULT_ROUTE) {
                self.window.most
            } else {
                0
            })),
            0 if is_test => Ok(Pick::Longest),
            0 => Err(soonest.max(Duration::from_millis(1))),
            most => Ok(Pick::UpTo(most)),
        }
    }

    fn room_of(&self, way: &WayName, now: Timestamp) -> Result<Pick, Duration> {
        let whole = WayName::transport(&way.transport);
        let part = way.domain.is_some().then(|| way.clone());
        let ways: Vec<WayName> = [Some(whole), part].into_iter().flatten().collect();
        let mut is_test = false;
        for name in &ways {
            is_test |= self.is_tested(name, now)?;
        }
        if is_test {
            return Ok(Pick::Longest);
        }
        let mut most = usize::MAX;
        for name in &ways {
            let Some((pace, limits)) = self.pace_of(name, now) else {
                return Err(LOOKS_EVERY);
            };
            match pace.room(limits, Instant::now()) {
                Ok(room) => most = most.min(room),
                Err(Full::Until(wait)) => return Err(wait),
                // Whoever leaves wakes us.
                Err(Full::Slots | Full::Window) => return Err(LOOKS_EVERY),
            }
        }
        Ok(Pick::UpTo(most))
    }

    /// Whether it is to be tested; otherwise it takes mail. Or when to ask again.
    fn is_tested(&self, name: &WayName, now: Timestamp) -> Result<bool, Duration> {
        let Some(way) = self.seen(name) else {
            return Ok(false);
        };
        if way.paused_by.is_some() {
            return Err(LOOKS_EVERY);
        }
        let Some(rules) = &self.breaker else {
            return Ok(false);
        };
        if way.is_open(rules, now) {
            return Ok(false);
        }
        if way.may_be_probed(rules, now) {
            return Ok(true);
        }
        Err(until_probe(&way, rules, now))
    }
}

fn until_probe(way: &posthaste_core::way::Way, rules: &BreakerRules, now: Timestamp) -> Duration {
    if way.condition_at(rules, now) == Condition::Probing {
        return LOOKS_EVERY;
    }
    let probe_at = way.next_probe_at.unwrap_or(now);
    // A little late is fine, early never is.
    let wait = Duration::try_from(probe_at.duration_since(now)).unwrap_or_default();
    wait + Duration::from_millis(1)
}
