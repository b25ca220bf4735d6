//! The ways out: named transports, routes over them, limits, the breaker.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use posthaste_core::duration::HumanDuration;
use posthaste_core::way::{BreakerRules, is_name};
use posthaste_engine::ways::{Choice, DEFAULT_ROUTE, Leg};
use posthaste_engine::{Limits, Route};
use posthaste_transport::DnsOptions;
use serde::Deserialize;

use super::load::ConfigError;
use super::settings::{CAPTURE, Settings};

/// The transport that `smtp.url` makes.
pub(crate) const SMTP: &str = "smtp";

/// `[breaker]`.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Breaker {
    pub(crate) enabled: bool,
    failures: u32,
    credential_failures: u32,
    window: HumanDuration,
    first_probe: HumanDuration,
    longest_probe: HumanDuration,
    ramp_rate: f64,
    ramp_doubling: HumanDuration,
    ramp: HumanDuration,
}

impl Breaker {
    /// When a way is stopped; `None` for never.
    pub(crate) fn rules(&self) -> Option<BreakerRules> {
        self.enabled.then_some(BreakerRules {
            failures: self.failures,
            credential_failures: self.credential_failures,
            window: self.window.0,
            first_probe: self.first_probe.0,
            longest_probe: self.longest_probe.0,
            ramp_rate: self.ramp_rate,
            ramp_doubling: self.ramp_doubling.0,
            ramp: self.ramp.0,
        })
    }

    fn check(&self) -> Result<(), ConfigError> {
        let invalid =
            |key: &str, message: &str| Err(ConfigError::new(format!("breaker.{key}"), message));
        if !(1..=100).contains(&self.failures) {
            return invalid("failures", "must be from 1 to 100");
        }
        if !(1..=100).contains(&self.credential_failures) {
            return invalid("credential_failures", "must be from 1 to 100");
        }
        for (key, time) in [
            ("window", self.window),
            ("first_probe", self.first_probe),
            ("ramp_doubling", self.ramp_doubling),
        ] {
            if time.0.is_zero() {
                return invalid(key, "must be longer than 0s");
            }
        }
        if self.longest_probe < self.first_probe {
            return invalid("longest_probe", "must be at least as long as first_probe");
        }
        if !(0.01..=1_000_000.0).contains(&self.ramp_rate) {
            return invalid(
                "ramp_rate",
                "must be from 0.01 to 1000000 emails per second",
            );
        }
        Ok(())
    }
}

/// What is allowed; 0 for any number.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub(crate) struct LimitSettings {
    rate: f64,
    concurrency: usize,
}

impl LimitSettings {
    pub(super) const fn new(rate: f64, concurrency: usize) -> Self {
        Self { rate, concurrency }
    }

    /// The same in the engine's words.
    pub(crate) fn limits(self) -> Limits {
        Limits {
            rate: Some(self.rate).filter(|rate| *rate > 0.0),
            concurrency: Some(self.concurrency).filter(|most| *most > 0),
        }
    }

    pub(super) fn check(self, place: &str) -> Result<(), ConfigError> {
        if !(0.0..=1_000_000.0).contains(&self.rate) {
            let message = "must be from 0 to 1000000 emails per second; 0 for any number";
            return Err(ConfigError::new(format!("{place}.rate"), message));
        }
        Ok(())
    }
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct DomainLimits {
    domain_rate: f64,
    domain_concurrency: usize,
    pub(crate) domain: BTreeMap<String, LimitSettings>,
}

impl DomainLimits {
    /// What is allowed to any domain.
    pub(crate) const fn any(&self) -> LimitSettings {
        LimitSettings::new(self.domain_rate, self.domain_concurrency)
    }
}

/// `[dns]`.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Dns {
    check: bool,
    servers: Vec<SocketAddr>,
    timeout: HumanDuration,
}

impl Dns {
    /// How domains are looked up, if they are.
    pub(crate) fn options(&self) -> Option<DnsOptions> {
        self.check.then(|| DnsOptions {
            servers: self.servers.clone(),
            timeout: self.timeout.0,
            ..DnsOptions::default()
        })
    }
}

/// `[route.<name>]`: either an order or weights.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub(crate) struct RouteSettings {
    order: Vec<String>,
    weights: BTreeMap<String, u32>,
}

impl RouteSettings {
    fn route(&self, place: &str, known: &[String]) -> Result<Route, ConfigError> {
        let route = match (self.order.is_empty(), self.weights.is_empty()) {
            (false, true) => Route::ordered(self.order.iter().map(String::as_str)),
            (true, false) => Route {
                choice: Choice::Weighted,
                legs: self
                    .weights
                    .iter()
                    .map(|(name, weight)| Leg {
                        transport: name.clone(),
                        weight: *weight,
                    })
                    .collect(),
            },
            _ => {
                let message = "needs either an order = [\"…\"] or weights = { … = 70, … = 30 }";
                return Err(ConfigError::new(place, message));
            }
        };
        let mut seen = Vec::new();
        for leg in &route.legs {
            let name = &leg.transport;
            if !known.contains(name) {
                let message = format!(
                    "`{name}` is not one of the transports: {}",
                    known.join(", ")
                );
                return Err(ConfigError::new(place, message));
            }
            if seen.contains(&name) {
                let message = format!("names `{name}` twice");
                return Err(ConfigError::new(place, message));
            }
            seen.push(name);
        }
        if route.legs.iter().all(|leg| leg.weight == 0) {
            return Err(ConfigError::new(place, "needs a weight that is not 0"));
        }
        Ok(route)
    }
}

impl Settings {
    /// Whether mail leaves at all: to a mail server or a provider, or into the dev inbox on purpose.
    pub(crate) fn has_way_out(&self) -> bool {
        !self.transport.is_empty() || !self.smtp.url.is_empty()
    }

    /// The names of the transports: the configured ones, that of `smtp.url`, or the dev inbox.
    pub(crate) fn transport_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        if !(self.smtp.url.is_empty() || self.smtp.url == CAPTURE) {
            names.push(SMTP.to_owned());
        }
        names.extend(self.transport.keys().cloned());
        if names.is_empty() {
            names.push(CAPTURE.to_owned());
        }
        names
    }

    /// The routes by name, with the default one.
    pub(crate) fn routes(&self) -> Result<BTreeMap<String, Route>, ConfigError> {
        let known = self.transport_names();
        let mut routes = BTreeMap::new();
        for (name, settings) in &self.route {
            let place = format!("route.{name}");
            if !is_name(name) {
                let message = "is no name: use lowercase letters, digits, `-` and `_`";
                return Err(ConfigError::new(place, message));
            }
            routes.insert(name.clone(), settings.route(&place, &known)?);
        }
        if !routes.contains_key(DEFAULT_ROUTE) {
            if known.len() > 1 {
                let message = format!(
                    "is missing: with several transports, say which one is used, as in \
                     order = [\"{}\"]",
                    known.join("\", \"")
                );
                return Err(ConfigError::new("route.default", message));
            }
            let only = Route::ordered(known.iter().map(String::as_str));
            routes.insert(DEFAULT_ROUTE.to_owned(), only);
        }
        Ok(routes)
    }

    /// Refuses ways out that cannot work.
    pub(super) fn check_ways(&self) -> Result<(), ConfigError> {
        self.breaker.check()?;
        self.limits.any().check("limits.domain")?;
        for (domain, limits) in &self.limits.domain {
            limits.check(&format!("limits.domain.\"{domain}\""))?;
        }
        for (name, transport) in &self.transport {
            let place = format!("transport.{name}");
            if !is_name(name) || name == CAPTURE {
                let message =
                    "is no name: use lowercase letters, digits, `-` and `_`, and not `capture`";
                return Err(ConfigError::new(place, message));
            }
            if name == SMTP && !self.smtp.url.is_empty() {
                let message = "is already the name of smtp.url (SMTP_URL); choose another";
                return Err(ConfigError::new(place, message));
            }
            transport.check(&place)?;
        }
        self.routes()?;
        Ok(())
    }
}
