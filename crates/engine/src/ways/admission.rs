//! Whether an email may go now, and by which way.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::decision::Parking;
use posthaste_core::port::{SharedStore, Started, Transport};
use posthaste_core::way::{BreakerRules, WayAnswer, WayEvent, WayName, any_of};
use tokio::time::Instant;

use super::pace::{Pace, Patience, Slot};
use super::{DEFAULT_ROUTE, Limits, Ways};

/// A slot or a token that comes within this time is waited for. Longer than it takes when all is
/// well, and shorter than anyone notices. Where answers are quick, whoever came before is gone in
/// no time, and waiting costs less than being put aside.
pub(crate) const A_MOMENT: Patience = Patience {
    usual: Duration::from_millis(100),
    at_a_quick_window: Duration::from_secs(1),
};

/// Whether an email may go now.
pub(crate) enum Admission {
    /// By this way.
    Go(Pass),
    /// By none.
    Wait(Parking),
}

/// The right to send one email by one way, now.
pub(crate) struct Pass {
    /// Which transport.
    pub(crate) transport: Arc<dyn Transport>,
    /// Its name.
    pub(crate) name: Arc<str>,
    /// The domain that all its recipients share.
    pub(super) domain: Option<WayName>,
    /// What this email tests.
    pub(super) probes: Vec<WayName>,
    /// Other transports of the route, for when this one fails.
    pub(super) others: Vec<String>,
    slots: Vec<Slot>,
}

impl Pass {
    /// From now on the other side takes its time.
    pub(crate) fn talks(&self) {
        self.slots.iter().for_each(Slot::talks);
    }
}

impl Ways {
    /// In which order the transports of an email's route are asked. Those that failed it since the
    /// last attempt that counted come last.
    fn order(&self, started: &Started) -> Vec<String> {
        let known = |name: &str| self.exits.contains_key(name);
        // One that may have been sent by a way goes by no other: there, nobody would know.
        if let Some(bound) = started.state.bound_to.as_deref().filter(|name| known(name)) {
            return vec![bound.to_owned()];
        }
        let name = started.route.as_deref().unwrap_or(DEFAULT_ROUTE);
        // A route that is not there any more must not hold its emails for ever.
        let Some(route) = self
            .routes
            .get(name)
            .or_else(|| self.routes.get(DEFAULT_ROUTE))
        else {
            return Vec::new();
        };
        if let [only] = &route.legs[..] {
            let name = &only.transport;
            return known(name).then(|| name.clone()).into_iter().collect();
        }
        let order = route.order(rand::random);
        let (tried, untried): (Vec<&str>, Vec<&str>) = order
            .into_iter()
            .filter(|name| known(name))
            .partition(|name| started.state.has_tried(name));
        untried
            .into_iter()
            .chain(tried)
            .map(str::to_owned)
            .collect()
    }

    /// Whether an email may go now, and by which way. `domain`: the one that its recipients share.
    /// `patience`: how long it may wait here for a place; `None` if it waited for its turn before, and
    /// now comes where there is room.
    pub(crate) async fn admit(
        &self,
        store: &SharedStore,
        started: &Started,
        domain: Option<&str>,
        lease: Duration,
        patience: Option<Patience>,
    ) -> Admission {
        if !self.is_known()
            && let Err(error) = self.look(store, None).await
        {
            tracing::warn!(%error, "could not look at the ways out; they are taken for free");
        }
        let order = self.order(started);
        let mut blocked = Vec::new();
        for (at, name) in order.iter().enumerate() {
            match self
                .try_way(store, started, name, domain, lease, patience)
                .await
            {
                Ok(Place {
                    ways,
                    probes,
                    slots,
                }) => {
                    let others = order[..at].iter().chain(&order[at + 1..]);
                    let others = others.filter(|other| !started.state.has_tried(other));
                    let Some(exit) = self.exits.get(name) else {
                        continue;
                    };
                    return Admission::Go(Pass {
                        transport: Arc::clone(&exit.transport),
                        name: Arc::clone(&exit.name),
                        domain: ways.into_iter().find(|way| way.domain.is_some()),
                        probes,
                        others: others.cloned().collect(),
                        slots,
                    });
                }
                Err(blocker) => blocked.push(blocker),
            }
        }
        Admission::Wait(self.parking(started, &blocked, Duration::ZERO))
    }

    /// Where an email waits for one of these.
    pub(super) fn parking(
        &self,
        started: &Started,
        blocked: &[WayName],
        floor: Duration,
    ) -> Parking {
        let waiting_for = any_of(blocked);
        self.backlog().insert(waiting_for.clone());
        self.wake.notify_one();
        let expires_at = started.expires_at.filter(|_| !started.state.ignores_expiry);
        Parking {
            waiting_for,
            floor,
            waits_until: expires_at,
        }
    }

    /// Tries to get a place on one way; otherwise says what is in the way.
    async fn try_way(
        &self,
        store: &SharedStore,
        started: &Started,
        name: &str,
        domain: Option<&str>,
        lease: Duration,
        patience: Option<Patience>,
    ) -> Result<Place, WayName> {
        let whole = WayName::transport(name);
        let part = domain.map(|domain| WayName::domain(name, domain));
        let ways: Vec<WayName> = [Some(whole), part].into_iter().flatten().collect();
        let mut probes = Vec::new();
        for way in &ways {
            match self.breaker_lets(store, started, way, lease).await {
                Let::Go => {}
                Let::Probe => probes.push(way.clone()),
                Let::Not => {
                    self.give_up_probes(store, started, &probes).await;
                    return Err(way.clone());
                }
            }
        }
        let mut slots = Vec::new();
        // What is tested goes whatever its pace; there is nothing else.
        for way in ways.iter().filter(|way| !probes.contains(way)) {
            match self.place(store, way, patience).await {
                Some(slot) => slots.push(slot),
                None => {
                    self.give_up_probes(store, started, &probes).await;
                    return Err(way.clone());
                }
            }
        }
        Ok(Place {
            ways,
            probes,
            slots,
        })
    }

    /// A place among those under way, if there is one soon.
    async fn place(
        &self,
        store: &SharedStore,
        way: &WayName,
        patience: Option<Patience>,
    ) -> Option<Slot> {
        let (pace, limits) = self.pace_of(way, store.now())?;
        let waits = match (patience, self.is_backlogged(way)) {
            (Some(patience), false) => patience,
            (None, _) => Patience::NONE,
            // Who comes new does not overtake those who wait, unless there is room for all.
            (_, true) if way.domain.is_none() && is_unbounded(&pace, limits) => Patience::NONE,
            (_, true) => return None,
        };
        pace.enter_soon(limits, &self.wake, waits).await.ok()
    }

    /// What the breaker of a way says.
    async fn breaker_lets(
        &self,
        store: &SharedStore,
        started: &Started,
        name: &WayName,
        lease: Duration,
    ) -> Let {
        let Some(way) = self.seen(name) else {
            return Let::Go;
        };
        let never = BreakerRules::default();
        let rules = self.breaker.as_ref().unwrap_or(&never);
        let now = store.now();
        if way.paused_by.is_some() {
            return Let::Not;
        }
        if self.breaker.is_none() || way.is_open(rules, now) {
            return Let::Go;
        }
        if !way.may_be_probed(rules, now) {
            return Let::Not;
        }
        let email = started.lease.id;
        match self
            .tell(store, name, WayEvent::Probe { email, lease }, rules)
            .await
        {
            Ok(WayAnswer::Taken) => {
                tracing::info!(email_id = %email, way = %name, "this email tests the way out");
                Let::Probe
            }
            Ok(_) => Let::Not,
            Err(error) => {
                tracing::warn!(way = %name, %error, "could not ask whether it may be tested");
                Let::Not
            }
        }
    }

    /// An email that was to test ways does not get to it. If this is lost, the test is over when its
    /// time is.
    pub(super) async fn give_up_probes(
        &self,
        store: &SharedStore,
        started: &Started,
        probes: &[WayName],
    ) {
        let email = started.lease.id;
        for (name, rules) in probes.iter().zip(std::iter::repeat(&self.breaker)) {
            if let Some(rules) = rules {
                let _ = self
                    .tell(store, name, WayEvent::Abandon { email }, rules)
                    .await;
            }
        }
    }
}

/// Whether any number may go, so that nobody is overtaken.
fn is_unbounded(pace: &Pace, limits: Limits) -> bool {
    !limits.is_any() && pace.learned(Instant::now()).is_none()
}

/// A place on one way.
struct Place {
    /// The way itself, and the one to the recipients' domain by it.
    ways: Vec<WayName>,
    /// Which of them are tested.
    probes: Vec<WayName>,
    slots: Vec<Slot>,
}

/// What a breaker says to an email.
enum Let {
    Go,
    Probe,
    Not,
}
