//! The ways out: which one an email takes, whether it may go now, and what its result says about
//! the way.
//!
//! An email asks for admission when its attempt has begun. It gets a [`Pass`] for the first
//! transport of its route that is free, or it is parked: it waits in the store, without spending
//! anything, until one of the ways it waits for takes mail again (see [`ready`]). What a way is
//! stopped by and how it comes back is decided in `posthaste_core::way` and kept in the store, so
//! that all instances share it; paces and windows are of this process.

mod admission;
mod pace;
mod ready;
mod route;
mod settlement;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::port::{
    Domains, FeedbackReader, SharedStore, StoreError, Transport, WaysReport,
};
use posthaste_core::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::admission::{A_MOMENT, Admission, Pass};

pub use self::pace::Limits;
pub(crate) use self::pace::Patience;
use self::pace::{Pace, Window};
pub(crate) use self::ready::LOOKS_EVERY;
pub use self::route::{Choice, Leg, Route};
pub(crate) use self::settlement::Borne;
use crate::sender::ATTEMPTS_PER_CONNECTION;

/// The route of emails that choose none.
pub const DEFAULT_ROUTE: &str = "default";

/// A domain that nobody wrote to for so long is forgotten.
const FORGETS_DOMAINS: Duration = Duration::from_secs(600);
/// A domain that answers slowly, or of which nothing is known, gets this part of the connections.
const FIRST_WINDOW: usize = 2;

/// A transport, and what is allowed with it.
pub struct WayParts {
    /// The transport.
    pub transport: Arc<dyn Transport>,
    /// How much may go by it.
    pub limits: Limits,
    /// Reads what its provider says later.
    pub feedback: Option<Arc<dyn FeedbackReader>>,
}

impl From<Arc<dyn Transport>> for WayParts {
    fn from(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            limits: Limits::default(),
            feedback: None,
        }
    }
}

/// What the ways out are made of.
#[derive(Default)]
pub struct WaysConfig {
    /// The transports; each has its own name.
    pub transports: Vec<WayParts>,
    /// The routes by name. Without a `default` one, it is all transports in their order.
    pub routes: BTreeMap<String, Route>,
    /// When a way is stopped; `None` for never.
    pub breaker: Option<BreakerRules>,
    /// How much may go to any domain.
    pub domain_limits: Limits,
    /// How much may go to these.
    pub limits_by_domain: BTreeMap<String, Limits>,
    /// Looks up whether domains take mail; `None` not to ask.
    pub domains: Option<Arc<dyn Domains>>,
    /// How many connections there are in this process.
    pub connections: usize,
}

struct Exit {
    name: Arc<str>,
    transport: Arc<dyn Transport>,
    limits: Limits,
    feedback: Option<Arc<dyn FeedbackReader>>,
    pace: Arc<Pace>,
}

/// What was last seen in the store.
struct View {
    /// Whether anyone has looked yet.
    is_known: bool,
    ways: HashMap<WayName, Way>,
    /// How often something was learned that did not come from looking.
    lessons: u64,
    /// Which of them taught something about these ways.
    learned: HashMap<WayName, u64>,
    senders: u32,
}

/// The ways out.
pub struct Ways {
    exits: BTreeMap<String, Exit>,
    routes: BTreeMap<String, Route>,
    breaker: Option<BreakerRules>,
    domain_limits: Limits,
    limits_by_domain: BTreeMap<String, Limits>,
    domains: Option<Arc<dyn Domains>>,
    window: Window,
    domain_paces: Mutex<HashMap<WayName, Arc<Pace>>>,
    view: RwLock<View>,
    /// What emails wait for, as far as this process knows.
    backlog: Mutex<BTreeSet<String>>,
    /// Wakes whoever lets parked emails go.
    wake: Arc<Notify>,
}

impl Ways {
    /// The ways out as they are configured.
    #[must_use]
    pub fn new(config: WaysConfig) -> Self {
        let now = Instant::now();
        let exit = |parts: WayParts| {
            let name: Arc<str> = Arc::from(parts.transport.name());
            let exit = Exit {
                name: Arc::clone(&name),
                transport: parts.transport,
                limits: parts.limits,
                feedback: parts.feedback,
                pace: Pace::new(None, now),
            };
            (name.to_string(), exit)
        };
        let names: Vec<String> = config
            .transports
            .iter()
            .map(|parts| parts.transport.name().to_owned())
            .collect();
        let mut routes = config.routes;
        routes
            .entry(DEFAULT_ROUTE.to_owned())
            .or_insert_with(|| Route::ordered(names.iter().map(String::as_str)));
        let connections = config.connections.max(1);
        Self {
            exits: config.transports.into_iter().map(exit).collect(),
            routes,
            breaker: config.breaker,
            domain_limits: config.domain_limits,
            limits_by_domain: config.limits_by_domain,
            domains: config.domains,
            window: Window {
                first: (connections / FIRST_WINDOW).max(1),
                most: connections * ATTEMPTS_PER_CONNECTION,
            },
            domain_paces: Mutex::default(),
            view: RwLock::new(View {
                is_known: false,
                ways: HashMap::new(),
                lessons: 0,
                learned: HashMap::new(),
                senders: 1,
            }),
            backlog: Mutex::default(),
            wake: Arc::default(),
        }
    }

    /// One transport, of which everything takes its way.
    #[must_use]
    pub fn single(transport: Arc<dyn Transport>, connections: usize) -> Self {
        Self::new(WaysConfig {
            transports: vec![transport.into()],
            breaker: Some(BreakerRules::default()),
            connections,
            ..WaysConfig::default()
        })
    }

    /// The transports, by name.
    pub fn transports(&self) -> impl Iterator<Item = &Arc<dyn Transport>> {
        self.exits.values().map(|exit| &exit.transport)
    }

    /// The names of the routes.
    pub fn routes(&self) -> impl Iterator<Item = (&str, &Route)> {
        let routes = self.routes.iter();
        routes.map(|(name, route)| (name.as_str(), route))
    }

    /// Who reads what this transport's provider says later.
    #[must_use]
    pub fn feedback(&self, transport: &str) -> Option<&Arc<dyn FeedbackReader>> {
        self.exits.get(transport)?.feedback.as_ref()
    }

    /// How much may go by a transport, as it is configured.
    #[must_use]
    pub fn limits(&self, transport: &str) -> Limits {
        let exit = self.exits.get(transport);
        exit.map_or_else(Limits::default, |exit| exit.limits)
    }

    /// How many emails are under way by a transport in this process, and at most how many per
    /// second the other side can take, if it told us.
    #[must_use]
    pub fn pace(&self, transport: &str) -> (usize, Option<f64>) {
        let exit = self.exits.get(transport);
        exit.map_or((0, None), |exit| {
            (exit.pace.under_way(), exit.pace.learned(Instant::now()))
        })
    }

    /// When a way is stopped; `None` for never.
    #[must_use]
    pub const fn breaker(&self) -> Option<&BreakerRules> {
        self.breaker.as_ref()
    }

    /// Who is asked about recipients' domains.
    pub(crate) const fn domains(&self) -> Option<&Arc<dyn Domains>> {
        self.domains.as_ref()
    }

    /// Closes idle connections.
    pub(crate) async fn close(&self) {
        for transport in self.transports() {
            transport.close().await;
        }
    }

    fn backlog(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a way does, as it was last seen; `None` if nothing is known against it.
    fn seen(&self, name: &WayName) -> Option<Way> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.ways.get(name).cloned()
    }

    /// Whether an operator has stopped by hand what an email was let go by.
    pub(crate) fn is_paused(&self, pass: &Pass) -> bool {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let is_paused = |name: &WayName| {
            let way = view.ways.get(name);
            way.is_some_and(|way| way.paused_by.is_some())
        };
        !view.ways.is_empty()
            && (is_paused(&WayName::transport(&pass.name))
                || pass.domain.as_ref().is_some_and(is_paused))
    }

    fn is_known(&self) -> bool {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.is_known
    }

    fn senders(&self) -> u32 {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.senders
    }

    /// Takes over how a way does now.
    pub(crate) fn learn(&self, name: WayName, way: Way) {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        view.lessons += 1;
        let lesson = view.lessons;
        view.learned.insert(name.clone(), lesson);
        if way.is_plain() {
            view.ways.remove(&name);
        } else {
            view.ways.insert(name, way);
        }
    }

    /// How often something was learned so far.
    fn lessons(&self) -> u64 {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.lessons
    }

    /// Takes over what was found in the store. What was learned after the first `lessons` may be
    /// newer than that, and stays.
    fn update(&self, report: WaysReport, lessons: u64) {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        view.learned.retain(|_, lesson| *lesson > lessons);
        let mut ways: HashMap<WayName, Way> = report.ways.into_iter().collect();
        for name in view.learned.keys() {
            match view.ways.get(name) {
                Some(way) => ways.insert(name.clone(), way.clone()),
                None => ways.remove(name),
            };
        }
        view.ways = ways;
        view.senders = report.senders.max(1);
        view.is_known = true;
        drop(view);
        *self.backlog() = report.waiting_for.into_iter().collect();
        let now = Instant::now();
        self.domain_paces()
            .retain(|_, pace| !pace.is_idle(FORGETS_DOMAINS, now));
    }

    /// Emails under way were kept waiting by us, and not by whom they are sent to.
    pub(crate) fn were_held_up(&self) {
        let now = Instant::now();
        self.domain_paces()
            .values()
            .for_each(|pace| pace.excuse(now));
    }

    fn domain_paces(&self) -> MutexGuard<'_, HashMap<WayName, Arc<Pace>>> {
        let paces = self.domain_paces.lock();
        paces.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether emails already wait for this way.
    fn is_backlogged(&self, name: &WayName) -> bool {
        let backlog = self.backlog();
        if backlog.is_empty() {
            return false;
        }
        let text = name.to_string();
        backlog
            .iter()
            .any(|key| key.split(',').any(|way| way == text))
    }

    /// The pace of a way, and what is allowed of it now.
    fn pace_of(&self, name: &WayName, now: Timestamp) -> Option<(Arc<Pace>, Limits)> {
        let exit = self.exits.get(&name.transport)?;
        let (pace, limits) = match &name.domain {
            None => (Arc::clone(&exit.pace), exit.limits),
            Some(domain) => {
                let limits = self.limits_by_domain.get(domain);
                let mut paces = self.domain_paces();
                let pace = match paces.get(name) {
                    Some(pace) => Arc::clone(pace),
                    None => {
                        let new = Pace::new(Some(self.window), Instant::now());
                        paces.insert(name.clone(), Arc::clone(&new));
                        new
                    }
                };
                (pace, limits.copied().unwrap_or(self.domain_limits))
            }
        };
        let ramp = self
            .breaker
            .as_ref()
            .zip(self.seen(name))
            .and_then(|(rules, way)| way.ramp_rate(rules, now));
        let limits = limits.slowed_to(ramp).shared_by(self.senders());
        Some((pace, limits))
    }

    /// Tells a way what happened, and keeps how it does now.
    async fn tell(
        &self,
        store: &SharedStore,
        name: &WayName,
        event: WayEvent,
        rules: &BreakerRules,
    ) -> Result<WayAnswer, StoreError> {
        let (way, answer) = store.tell_way(name, event, rules, None).await?;
        self.learn(name.clone(), way);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_while_someone_looked_is_not_forgotten() {
        let ways = Ways::new(WaysConfig::default());
        let name = WayName::transport("smtp");
        let report = || WaysReport {
            ways: Vec::new(),
            waiting_for: Vec::new(),
            senders: 1,
        };
        let before = ways.lessons();
        let mut paused = Way::flowing(Timestamp::UNIX_EPOCH);
        paused.paused_by = Some("ann".to_owned());
        ways.learn(name.clone(), paused);
        ways.update(report(), before);
        assert!(ways.seen(&name).is_some(), "the look had begun before");
        ways.update(report(), ways.lessons());
        assert!(ways.seen(&name).is_none(), "someone else resumed it");
    }
}
