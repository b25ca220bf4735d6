//! The ways out as they are shown.

use posthaste_core::way::{Condition, Way};
use posthaste_engine::operator::TransportView;
use serde::Serialize;
use utoipa::ToSchema;

use super::Time;

/// A way out, and what waits for it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Transport)]
pub(crate) struct TransportBody {
    /// Its name.
    #[schema(example = "smtp")]
    name: String,
    /// `flowing`, `stopped` (it failed too often; emails wait for it), `probing` (one email tests
    /// it), `ramping` (it takes up again, more with every moment) or `paused` (by hand).
    #[schema(example = "flowing")]
    state: &'static str,
    /// Since when it has been flowing, stopped or ramping, if that is known.
    since: Option<Time>,
    /// Who paused it.
    #[schema(example = "admin:ann")]
    paused_by: Option<String>,
    /// What went wrong last, also if that was long ago. Only for keys that see everyone's emails.
    last_error: Option<String>,
    /// When one email may test it.
    next_probe_at: Option<Time>,
    /// How many emails wait for it, also for domains by it.
    waiting: u64,
    /// Since when the oldest of them could have been tried.
    oldest_waiting_at: Option<Time>,
    /// How many emails per second it takes while it comes back.
    ramp_rate: Option<f64>,
    /// How many emails per second may go by it; any number if not given.
    rate: Option<f64>,
    /// How many emails may go by it at the same time; any number if not given.
    concurrency: Option<usize>,
    /// How many are under way in this process.
    under_way: usize,
    /// How many per second its provider can take, as far as it told this process.
    learned_rate: Option<f64>,
    /// The routes that use it.
    #[schema(example = json!(["default"]))]
    routes: Vec<String>,
    /// Whether its provider tells us later what became of emails.
    listens: bool,
    /// Destination domains that are in trouble by it. Only for keys that see everyone's emails.
    domains: Vec<DomainBody>,
}

/// A destination domain that is in trouble by one way out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TroubledDomain)]
pub(crate) struct DomainBody {
    /// The domain.
    #[schema(example = "example.net")]
    domain: String,
    /// As of a transport.
    #[schema(example = "stopped")]
    state: &'static str,
    /// Since when.
    since: Time,
    /// Who paused it.
    paused_by: Option<String>,
    /// What went wrong last.
    last_error: Option<String>,
    /// When one email may test it.
    next_probe_at: Option<Time>,
}

/// The ways out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TransportList {
    /// Each of them, by name.
    data: Vec<TransportBody>,
}

/// Whether someone paused it.
pub(crate) fn is_paused(way: Option<&Way>) -> bool {
    way.is_some_and(|way| way.paused_by.is_some())
}

/// Whether mail cannot go by it as it should.
pub(crate) fn is_troubled(way: Option<&Way>, condition: Condition) -> bool {
    is_paused(way) || condition != Condition::Flowing
}

/// How a way does, in a word: a pause counts more than anything.
pub(crate) fn state_of(way: Option<&Way>, condition: Condition) -> &'static str {
    if is_paused(way) {
        "paused"
    } else {
        condition.as_str()
    }
}

impl TransportBody {
    /// The transport as someone may see it who sees everyone's emails, or only their own: errors and
    /// domains can tell whom others write to.
    pub(crate) fn of(view: TransportView, sees_everyone: bool) -> Self {
        let state = state_of(view.way.as_ref(), view.condition);
        let way = view.way.as_ref();
        let troubled = |(_, condition, way): &(String, Condition, Way)| {
            sees_everyone && is_troubled(Some(way), *condition)
        };
        let domains = view.domains.into_iter().filter(troubled);
        Self {
            state,
            since: way.map(|way| Time(way.since)),
            paused_by: way.and_then(|way| way.paused_by.clone()),
            last_error: way
                .and_then(|way| way.last_error.clone())
                .filter(|_| sees_everyone),
            next_probe_at: way.and_then(|way| way.next_probe_at).map(Time),
            waiting: view.waiting,
            oldest_waiting_at: view.oldest_waiting.map(Time),
            ramp_rate: view.ramp_rate,
            rate: view.limits.rate,
            concurrency: view.limits.concurrency,
            under_way: view.under_way,
            learned_rate: view.learned_rate,
            routes: view.routes,
            listens: view.listens,
            domains: domains
                .map(|(domain, condition, way)| DomainBody::of(domain, condition, way))
                .collect(),
            name: view.name,
        }
    }
}

impl DomainBody {
    fn of(domain: String, condition: Condition, way: Way) -> Self {
        Self {
            domain,
            state: state_of(Some(&way), condition),
            since: Time(way.since),
            paused_by: way.paused_by,
            last_error: way.last_error,
            next_probe_at: way.next_probe_at.map(Time),
        }
    }
}

impl TransportList {
    /// The transports as someone may see them.
    pub(crate) fn of(views: Vec<TransportView>, sees_everyone: bool) -> Self {
        let body = |view| TransportBody::of(view, sees_everyone);
        Self {
            data: views.into_iter().map(body).collect(),
        }
    }
}
