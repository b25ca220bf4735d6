//! What people see of the ways out and do to them, and of addresses that get nothing any more.

use posthaste_core::address::{Address, InvalidAddress};
use posthaste_core::port::{
    Actor, Parked, SharedStore, StoreError, StoreResult, SuppressionFilter,
};
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::Suppression;
use posthaste_core::way::{BreakerRules, Condition, Way, WayAnswer, WayEvent, WayName, ways_of};
use tokio::time::Instant;

use super::{LONGEST_LIST, Operator};
use crate::ways::{Limits, Ways};

/// How a transport does, and what waits for it.
#[derive(Debug, Clone)]
pub struct TransportView {
    /// Its name.
    pub name: String,
    /// How it does. A paused one does as it did.
    pub condition: Condition,
    /// What is known of it, if anything is.
    pub way: Option<Way>,
    /// Destination domains that are in trouble by it.
    pub domains: Vec<(String, Condition, Way)>,
    /// How many emails wait for it, also for domains by it.
    pub waiting: u64,
    /// Since when the oldest of them could have been tried.
    pub oldest_waiting: Option<posthaste_core::Timestamp>,
    /// How many emails per second it takes while it comes back.
    pub ramp_rate: Option<f64>,
    /// How much may go by it.
    pub limits: Limits,
    /// How many are under way in this process.
    pub under_way: usize,
    /// How many per second its provider can take, as far as it told this process.
    pub learned_rate: Option<f64>,
    /// The routes that use it.
    pub routes: Vec<String>,
    /// Whether its provider tells us later what became of emails.
    pub listens: bool,
}

/// What became of an operator's word to a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switched {
    /// Done.
    Done,
    /// It was so already.
    Unchanged,
    /// There is no such transport.
    NotFound,
}

/// A page of suppressions.
#[derive(Debug, Clone)]
pub struct SuppressionPage {
    /// The entries, by owner and address.
    pub entries: Vec<Suppression>,
    /// Where the next page begins, if there is one.
    pub next: Option<(String, String)>,
}

impl Operator {
    /// How the transports do, by name.
    pub async fn transports(&self) -> StoreResult<Vec<TransportView>> {
        let Some(ways) = &self.ways else {
            return Ok(Vec::new());
        };
        let report = self
            .store
            .watch_ways(None, std::time::Duration::ZERO)
            .await?;
        let parked = self.parked.get(&self.store, &report.waiting_for).await?;
        let names = ways
            .transports()
            .map(|transport| transport.name().to_owned());
        Ok(names
            .map(|name| self.view(ways, name, &report.ways, &parked))
            .collect())
    }

    fn view(
        &self,
        ways: &Ways,
        name: String,
        known: &[(WayName, Way)],
        parked: &[Parked],
    ) -> TransportView {
        let never = BreakerRules::default();
        let rules = ways.breaker().unwrap_or(&never);
        let now = self.store.now();
        let mine = known.iter().filter(|(way, _)| way.transport == name);
        let (mut whole, mut domains) = (None, Vec::new());
        for (way_name, way) in mine {
            match &way_name.domain {
                None => whole = Some(way.clone()),
                Some(domain) if !way.is_plain() => {
                    let condition = way.condition_at(rules, now);
                    domains.push((domain.clone(), condition, way.clone()));
                }
                Some(_) => {}
            }
        }
        let waits_for_me = |parked: &&Parked| {
            ways_of(&parked.waiting_for)
                .next()
                .is_some_and(|first| first.transport == name)
        };
        let waiting: Vec<&Parked> = parked.iter().filter(waits_for_me).collect();
        let (under_way, learned_rate) = ways.pace(&name);
        let uses = |route: &crate::Route| route.legs.iter().any(|leg| leg.transport == name);
        TransportView {
            condition: whole
                .as_ref()
                .map_or(Condition::Flowing, |way| way.condition_at(rules, now)),
            ramp_rate: whole.as_ref().and_then(|way| way.ramp_rate(rules, now)),
            way: whole,
            domains,
            waiting: waiting.iter().map(|parked| parked.count).sum(),
            oldest_waiting: waiting.iter().map(|parked| parked.oldest).min(),
            limits: ways.limits(&name),
            under_way,
            learned_rate,
            routes: ways
                .routes()
                .filter(|(_, route)| uses(route))
                .map(|(route, _)| route.to_owned())
                .collect(),
            listens: ways.feedback(&name).is_some(),
            name,
        }
    }

    /// Lets nothing go by a transport until someone resumes it.
    pub async fn pause_transport(&self, name: &str, actor: &Actor) -> StoreResult<Switched> {
        let event = WayEvent::Pause {
            actor: actor.name.clone(),
        };
        self.switch(name, event, actor).await
    }

    /// Takes a pause back. One that is stopped is tested now.
    pub async fn resume_transport(&self, name: &str, actor: &Actor) -> StoreResult<Switched> {
        self.switch(name, WayEvent::Resume, actor).await
    }

    async fn switch(&self, name: &str, event: WayEvent, actor: &Actor) -> StoreResult<Switched> {
        let Some(ways) = &self.ways else {
            return Ok(Switched::NotFound);
        };
        let way: WayName = match name.parse() {
            Ok(way) => way,
            Err(never) => match never {},
        };
        if !ways.transports().any(|known| known.name() == way.transport) {
            return Ok(Switched::NotFound);
        }
        let rules = ways.breaker().copied().unwrap_or_default();
        let (state, answer) = self
            .store
            .tell_way(&way, event, &rules, Some(actor))
            .await?;
        ways.learn(way, state);
        Ok(match answer {
            WayAnswer::Taken => Switched::Done,
            _ => Switched::Unchanged,
        })
    }

    /// A page of addresses that get nothing any more.
    pub async fn suppressions(
        &self,
        mut filter: SuppressionFilter,
    ) -> StoreResult<SuppressionPage> {
        let limit = filter.limit.clamp(1, LONGEST_LIST);
        filter.limit = limit + 1;
        let mut entries = self.store.suppressions(&filter).await?;
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| has_more);
        let next = last.map(|entry| (entry.owner.clone(), entry.address.clone()));
        Ok(SuppressionPage { entries, next })
    }

    /// Puts an address on the list by hand; whether it is new.
    pub async fn suppress(
        &self,
        owner: &str,
        address: &str,
        detail: Option<String>,
        actor: &Actor,
    ) -> Result<bool, SuppressError> {
        let entry = Suppression {
            owner: owner.to_owned(),
            address: Address::parse(address)?.folded(),
            reason: DeadReason::Suppressed,
            detail,
            email_id: None,
            created_at: self.store.now(),
            created_by: actor.name.clone(),
        };
        let added = self.store.suppress(vec![entry], actor).await?;
        Ok(added == [true])
    }

    /// Takes an address off the list of an owner; whether it was there.
    pub async fn unsuppress(&self, owner: &str, address: &str, actor: &Actor) -> StoreResult<bool> {
        let folded =
            Address::parse(address).map_or_else(|_| address.to_lowercase(), |a| a.folded());
        self.store.unsuppress(owner, &folded, actor).await
    }
}

/// How long counting parked emails may take, as a part of all time.
const COUNTING: u32 = 50;

/// How many emails are parked, as it was last counted. Counting takes longer the more there are, and
/// is done the less often for it; but anew as soon as they wait for something else than before.
#[derive(Default)]
pub(super) struct ParkedCount(tokio::sync::Mutex<Option<(Instant, Vec<Parked>)>>);

impl ParkedCount {
    async fn get(&self, store: &SharedStore, waiting_for: &[String]) -> StoreResult<Vec<Parked>> {
        let mut counted = self.0.lock().await;
        let is_of_these = |parked: &[Parked]| {
            parked.len() == waiting_for.len()
                && parked.iter().all(|p| waiting_for.contains(&p.waiting_for))
        };
        if let Some((until, parked)) = &*counted
            && Instant::now() < *until
            && is_of_these(parked)
        {
            return Ok(parked.clone());
        }
        let begun = Instant::now();
        let parked = store.parked().await?;
        let until = Instant::now() + begun.elapsed() * COUNTING;
        *counted = Some((until, parked.clone()));
        Ok(parked)
    }
}

/// Why an address could not be put on the list.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SuppressError {
    /// It is no address.
    #[error(transparent)]
    Invalid(#[from] InvalidAddress),
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
